// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/resident"
)

// roleEnv tells a program that this package has started what it is.
const roleEnv = "SOFTROCE_VMM_PROCESS"

const (
	roleHandler  = "handler"
	roleGuardian = "guardian"
)

// socketFD is the descriptor of the socket to the process that started this one.
const socketFD = 3

// Main is the first call of main in a program that makes maps, and of TestMain in its tests. It
// returns at once, unless a map has started the program as its handler or guardian: then it does
// their work and exits. open opens the store that a map names. A store with a method Close() error
// is closed when the map is, or when the application has ended.
func Main(open func(name string) (Store, error)) {
	var err error
	switch os.Getenv(roleEnv) {
	case "":
		return
	case roleHandler:
		stayResident()
		err = serveHandler(socketFD, open)
	case roleGuardian:
		stayResident()
		err = serveGuardian(socketFD)
	default:
		err = fmt.Errorf("%s=%s is not a process of vmm", roleEnv, os.Getenv(roleEnv))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vmm:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// processScore is the score of handler and guardian when the kernel chooses the process to end: the application is
// ended before, because it cannot go on without them.
const processScore = -900

// stayResident keeps handler or guardian in memory. A program of a user may not do that, and works without.
func stayResident() {
	_ = resident.Protect(processScore)
	_ = resident.Lock()
}

// start starts a process of this package with one end of a socket, and returns the other.
func start(command []string, role string) (*exec.Cmd, *net.UnixConn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(fds[1]), "vmm")
	defer theirs.Close()
	ours, err := connOf(fds[0])
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	// Control-C of a terminal is for the application, which may still need its memory.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, nil, err
	}
	return cmd, ours, nil
}

// connOf makes a connection of a socket, which it closes.
func connOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "vmm")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("a %T is not a local socket", c)
	}
	return u, nil
}

// maxMessage is the longest message between the processes, in bytes.
const maxMessage = 4096

// send sends a message of JSON, with descriptors.
func send(c *net.UnixConn, message any, fds ...int) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = c.WriteMsgUnix(b, rights, nil)
	return err
}

// receive receives a message of JSON, with count descriptors.
func receive(c *net.UnixConn, message any, count int) ([]int, error) {
	b := make([]byte, maxMessage)
	rights := make([]byte, unix.CmsgSpace(4*max(count, 1)))
	n, rn, _, _, err := c.ReadMsgUnix(b, rights)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, fmt.Errorf("the other process has ended")
	}
	var fds []int
	if rn > 0 {
		list, err := unix.ParseSocketControlMessage(rights[:rn])
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			more, err := unix.ParseUnixRights(&m)
			if err != nil {
				return nil, err
			}
			fds = append(fds, more...)
		}
	}
	if len(fds) != count {
		return nil, fmt.Errorf("%d descriptors instead of %d", len(fds), count)
	}
	return fds, json.Unmarshal(b[:n], message)
}
