// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Guard keeps a second agent off an interface, also when somebody has removed the run directory
// with the lease of the first. It is a unix socket with an abstract name, which belongs to the
// network namespace, has no file, and ends with the process. Nothing is sent on it.
type Guard struct{ fd int }

const guardPrefix = "@softroce-xdp/agent/"

// guardName is the abstract name of the guard of an interface.
func guardName(ifindex int) string { return guardPrefix + strconv.Itoa(ifindex) }

// TakeGuard takes the guard of an interface of this network namespace, which is attached with the
// run directory of o. The error wraps ErrAgentRunning if another agent has the guard. A process of
// another user cannot keep an agent from starting: the guard is nil then.
func TakeGuard(ifname string, ifindex int, o Options) (*Guard, error) {
	if err := checkRunDir(ifname, o.withDefaults()); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: guard: %w", ifname, err)
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: guardName(ifindex)})
	if err == nil {
		_ = unix.Shutdown(fd, unix.SHUT_RD)
		return &Guard{fd}, nil
	}
	unix.Close(fd)
	if !errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%s: guard: %w", ifname, err)
	}
	if other := agentAt(ifindex); other != nil {
		return nil, fmt.Errorf("%s: %w, %w", ifname, ErrAgentRunning, other)
	}
	return nil, nil
}

// Release releases the guard.
func (g *Guard) Release() {
	if g != nil {
		unix.Close(g.fd)
	}
}

// agentProcess is the agent of an interface of this network namespace, found by its guard.
type agentProcess struct {
	ifindex int
	pid     int      // 0: it is in another PID namespace
	runDirs []string // folders of its leases; a process can have several agents
}

// Error describes the process, for error messages.
func (p *agentProcess) Error() string {
	if p.pid == 0 {
		return "in a process of another PID namespace"
	}
	return fmt.Sprintf("in process %d", p.pid)
}

// agentAt finds the agent of an interface; nil = there is none.
func agentAt(ifindex int) *agentProcess {
	inode := guardInode(ifindex)
	if inode == "" {
		return nil
	}
	p := &agentProcess{ifindex: ifindex}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		has, runDirs := descriptors(dir, "socket:["+inode+"]")
		if !has {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(dir, &st) != nil {
			continue
		}
		if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return nil // somebody has only taken the name
		}
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		p.runDirs = runDirs
		return p
	}
	if guardInode(ifindex) == "" {
		return nil // it ended meanwhile
	}
	return p
}

// HasAgent reports whether an interface has an agent, by its lease or its guard.
func HasAgent(ifname string, o Options) bool {
	return AgentAlive(o.withDefaults().RunDir, ifname) || AgentProcess(ifname, o) != 0
}

// AgentProcess returns the process of the agent of an interface of this network namespace, by its
// lease, or by its guard if somebody has removed the lease; 0 = there is none.
func AgentProcess(ifname string, o Options) int {
	o = o.withDefaults()
	if pid := leasePID(o.RunDir, ifname, leaseAgent); pid != 0 {
		return pid
	}
	if p := guardOf(ifname, o); p != nil {
		return p.pid
	}
	return 0
}

// guardOf finds the agent of an interface by its guard, if it has the run directory.
func guardOf(ifname string, o Options) *agentProcess {
	where, dev := locate(PinDir(o.PinRoot, ifname))
	switch where {
	case elsewhere:
		return nil // guards belong to network namespaces
	case gone:
		var err error
		if dev, err = netlink.LinkByName(ifname); err != nil {
			return nil
		}
	}
	p := agentAt(dev.Attrs().Index)
	if p == nil || len(p.runDirs) > 0 && !p.uses(o.RunDir) {
		return nil
	}
	return p
}

// guardInode returns the inode of the guard of an interface; "" = there is none.
func guardInode(ifindex int) string { return guards()[guardName(ifindex)] }

// guards returns the inodes of the guards of this network namespace, by their names. A line of the
// file ends with inode and name.
func guards() map[string]string {
	found := map[string]string{}
	b, err := os.ReadFile("/proc/thread-self/net/unix")
	if err != nil {
		return found
	}
	for line := range bytes.Lines(b) {
		if !bytes.Contains(line, []byte(guardPrefix)) {
			continue
		}
		if f := strings.Fields(string(line)); len(f) == 8 {
			found[f[7]] = f[6]
		}
	}
	return found
}

// descriptors reports whether a process has a descriptor of a socket, and returns the directories
// of the agents' leases that it has open.
func descriptors(proc, socket string) (has bool, runDirs []string) {
	entries, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return false, nil
	}
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(proc, "fd", e.Name()))
		if err != nil {
			continue
		}
		to = strings.TrimSuffix(to, " (deleted)")
		if to == socket {
			has = true
		}
		if strings.HasPrefix(to, "/") && strings.HasSuffix(to, "."+leaseAgent) {
			runDirs = append(runDirs, filepath.Dir(to))
		}
	}
	return has, runDirs
}

// uses reports whether the process has an agent with the run directory.
func (p *agentProcess) uses(runDir string) bool {
	path, err := filepath.Abs(runDir)
	if err != nil {
		return false
	}
	for _, d := range p.runDirs {
		theirs, err := os.Stat(d)
		ours, err2 := os.Stat(path)
		if d == path || err == nil && err2 == nil && os.SameFile(theirs, ours) {
			return true
		}
	}
	return false
}

// otherMounts reports whether the process has another mount namespace than this one.
func (p *agentProcess) otherMounts() bool {
	var theirs, ours unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d/ns/mnt", p.pid), &theirs) == nil &&
		unix.Stat("/proc/self/ns/mnt", &ours) == nil && theirs.Ino != ours.Ino
}

// stop ends the process as StopAgent does.
func (p *agentProcess) stop(ifname string, timeout time.Duration) error {
	if p.pid == 0 {
		return fmt.Errorf("%s: the agent is %w: end it there", ifname, p)
	}
	return stopProcess(ifname, p.pid, timeout, func() bool {
		return guardInode(p.ifindex) != ""
	})
}
