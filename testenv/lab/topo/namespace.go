// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	netnsDir   = "/run/netns"
	namePrefix = "softroce-" // then the process id, a serial number and the host's name
)

// thread is an OS thread that lives in a namespace. Processes are started from
// it: they inherit the namespace, and they die with the thread (Pdeathsig goes
// by thread, not by process), hence also when this process is killed.
type thread struct {
	jobs chan func()
	done chan struct{}
	once sync.Once
}

// prepareDir makes the directory of namespace names what `ip netns add` makes it: a
// shared mount of its own. If ip did it later, it would hide the namespaces that we
// had mounted there before, and they could be neither seen nor removed.
func prepareDir() error {
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return fmt.Errorf("topo: %w", err)
	}
	dir, err := os.Open(netnsDir)
	if err != nil {
		return fmt.Errorf("topo: %w", err)
	}
	defer dir.Close()
	// The lock that ip takes, too.
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("topo: lock %s: %w", netnsDir, err)
	}
	err = unix.Mount("", netnsDir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if errors.Is(err, unix.EINVAL) { // not a mount yet
		if err = unix.Mount(netnsDir, netnsDir, "none", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = unix.Mount("", netnsDir, "none", unix.MS_SHARED|unix.MS_REC, "")
		}
	}
	if err != nil {
		return fmt.Errorf("topo: make %s a shared mount: %w", netnsDir, err)
	}
	return nil
}

// newNamespace creates a named network namespace and a thread inside it.
func newNamespace(name string) (*thread, netns.NsHandle, error) {
	th := &thread{jobs: make(chan func()), done: make(chan struct{})}
	type result struct {
		ns  netns.NsHandle
		err error
	}
	ready := make(chan result)
	var run func(locked chan struct{})
	run = func(locked chan struct{}) {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if locked != nil {
			close(locked)
		}
		if unix.Gettid() == os.Getpid() {
			// The main thread must not move: /proc/self/ns/net, /proc/self/net and a reader of
			// them would follow it. It is held until another thread has begun to do it: with one
			// processor the next goroutine would run on the main thread again, without end.
			other := make(chan struct{})
			go run(other)
			<-other
			runtime.UnlockOSThread()
			return
		}
		ns, err := netns.NewNamed(name)
		ready <- result{ns, err}
		if err != nil {
			return
		}
		for job := range th.jobs {
			job()
		}
		close(th.done)
	}
	go run(nil)
	r := <-ready
	if r.err != nil {
		return nil, 0, fmt.Errorf("topo: create namespace %s: %w", name, r.err)
	}
	return th, r.ns, nil
}

// do runs f on the thread and waits for it.
func (th *thread) do(f func()) {
	finished := make(chan struct{})
	th.jobs <- func() { defer close(finished); f() }
	<-finished
}

// stop ends the thread. Nobody may call do afterwards.
func (th *thread) stop() {
	th.once.Do(func() { close(th.jobs) })
	<-th.done
}

// deleteLinks removes every link but the loopback.
func deleteLinks(nl *netlink.Handle) error {
	links, err := nl.LinkList()
	if err != nil {
		return fmt.Errorf("topo: list links: %w", err)
	}
	var errs []error
	for _, l := range links {
		if l.Attrs().Name == "lo" {
			continue
		}
		err := nl.LinkDel(l)
		// Deleting one end of a veth pair deletes the other.
		if err != nil && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("topo: delete link %s: %w", l.Attrs().Name, err))
		}
	}
	return errors.Join(errs...)
}

// Sweep removes the namespaces of processes that died without closing their
// topology. New calls it.
func Sweep() error {
	entries, err := os.ReadDir(netnsDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("topo: %w", err)
	}
	var errs []error
	for _, e := range entries {
		pid, ok := ownerOf(e.Name())
		if !ok || alive(pid) {
			continue
		}
		if ns, err := netns.GetFromName(e.Name()); err == nil {
			if nl, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE); err == nil {
				errs = append(errs, deleteLinks(nl))
				nl.Close()
			}
			ns.Close()
		}
		// EINVAL: the file is there but not mounted on, as after a crash between
		// the two steps of creating a namespace.
		err := unix.Unmount(netnsDir+"/"+e.Name(), unix.MNT_DETACH)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("topo: sweep %s: %w", e.Name(), err))
			continue
		}
		if err := os.Remove(netnsDir + "/" + e.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("topo: sweep: %w", err))
		}
	}
	return errors.Join(errs...)
}

// ownerOf returns the process id in a namespace's name.
func ownerOf(name string) (pid int, ok bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return 0, false
	}
	digits, _, ok := strings.Cut(rest, "-")
	if !ok {
		return 0, false
	}
	pid, err := strconv.Atoi(digits)
	return pid, err == nil && pid > 0
}

func alive(pid int) bool {
	return !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
