// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// controlledQKey is the bit of controlled Q_Keys (IBTA 10.2.5). Queue pair 1, with the communication managers of all
// hosts, has one of them.
const controlledQKey = 1 << 31

var errControlledQKey = errors.New("a Q_Key with bit 31 set is for processes with CAP_NET_RAW (IBTA 10.2.5): choose one below 0x80000000, or run as root")

// mayUse refuses a controlled Q_Key to processes without CAP_NET_RAW, as the kernel does (modify_qp of
// drivers/infiniband/core/uverbs_cmd.c). A work request cannot bring in such a Q_Key: with bit 31 set, it has that of
// the queue pair sent.
func (p *process) mayUse(m *proto.ModifyQP) error {
	if verbs.AttrMask(m.Mask)&verbs.MaskQKey != 0 && m.Attr.QKey&controlledQKey != 0 && !p.hasCapability(unix.CAP_NET_RAW) {
		return errControlledQKey
	}
	return nil
}

// privilegedPorts is the first port that needs no privilege, as for the kernel stack (PROT_SOCK in
// cma_use_port of drivers/infiniband/core/cma.c), which does not use ip_unprivileged_port_start either.
const privilegedPorts = 1024

// mayListen refuses a port for which the kernel stack requires CAP_NET_BIND_SERVICE.
func (p *process) mayListen(id mad.ServiceID) error {
	if _, port, ok := id.IP(); !ok || port >= privilegedPorts || p.hasCapability(unix.CAP_NET_BIND_SERVICE) {
		return nil
	}
	return fmt.Errorf("listen at %s: ports below %d are for processes with CAP_NET_BIND_SERVICE: choose another or run as root: %w",
		id, privilegedPorts, os.ErrPermission)
}

var errNotYours = errors.New("the status is for processes with CAP_NET_ADMIN, and for the user of the server if that is not root: run as root")

// maySeeAll refuses the status of all processes. User ID 0 alone is no right: containers have it without capabilities.
func (p *process) maySeeAll() error {
	if p.uid != 0 && p.uid == uint32(os.Getuid()) || p.hasCapability(unix.CAP_NET_ADMIN) {
		return nil
	}
	return errNotYours
}

// inUserNamespace reports whether the process of a directory of procfs is in the user namespace of the server.
//
// To read the link ns/user of a process of another user takes CAP_SYS_PTRACE. A server without it compares the maps
// of user and group IDs, which everybody may read. Another namespace has the same maps only if they were written by
// a process with CAP_SETUID and CAP_SETGID in the server's.
func inUserNamespace(dir string) (bool, error) {
	theirs, err := os.Readlink(dir + "ns/user")
	if err == nil {
		ours, err := os.Readlink("/proc/self/ns/user")
		return theirs == ours, err
	}
	if !errors.Is(err, os.ErrPermission) {
		return false, err
	}
	for _, name := range []string{"uid_map", "gid_map"} {
		theirs, err1 := os.ReadFile(dir + name)
		ours, err2 := os.ReadFile("/proc/self/" + name)
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(theirs, ours) {
			return false, err
		}
	}
	return true, nil
}

var effective = regexp.MustCompile(`(?m)^CapEff:\s*([0-9a-f]+)$`)

// hasCapability reports whether the process has a capability now, in the user namespace of the server. That is the
// effective set of its first thread.
//
// A process may connect, leave its socket to a child, and execute a program that gets capabilities from its file (setuid,
// file capabilities). The kernel gives the procfs directory of such a program to root (proc(5), dumpable). So the
// directory must have the user that has connected. A program that had capabilities of its file when it connected is
// refused as well; one with ambient capabilities is not.
func (p *process) hasCapability(n uint) bool {
	dir := fmt.Sprintf("/proc/%d/", p.pid)
	var owner unix.Stat_t
	err0 := unix.Stat(dir, &owner)
	status, err1 := os.ReadFile(dir + "status")
	same, err2 := inUserNamespace(dir)
	// Before new capabilities show in its status, the kernel gives the directory to root.
	var after unix.Stat_t
	err4 := unix.Stat(dir, &after)
	// The process has not ended, so the files are not those of another one with its number.
	err3 := unix.PidfdSendSignal(p.pidfd, 0, nil, 0)
	if errors.Is(err3, unix.EPERM) { // without CAP_KILL
		err3 = nil
	}
	if errors.Join(err0, err1, err2, err3, err4) != nil || !same || owner.Uid != p.uid || after.Uid != p.uid {
		return false
	}
	m := effective.FindSubmatch(status)
	if m == nil {
		return false
	}
	caps, err := strconv.ParseUint(string(m[1]), 16, 64)
	return err == nil && caps>>n&1 != 0
}
