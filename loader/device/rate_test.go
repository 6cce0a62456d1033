// SPDX-License-Identifier: Apache-2.0

package device

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// A process that registers 4096 regions of 4 GB together and makes and connects 1000 queue pairs is not
// delayed.
func TestCallsOfStart(t *testing.T) {
	n := uint64(callsToAccept + callsToOpen + 4096 + 4<<30/bytesOfCall)
	for _, m := range []proto.Type{proto.TCreateCQ, proto.TCreateQP, proto.TModifyQP, proto.TModifyQP, proto.TModifyQP} {
		n += 1000 * callsOf(m)
	}
	p, err := limits.New(limits.Defaults()).Open(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if wait := p.Spend(0, time.Duration(n)*limits.Call); wait != 0 {
		t.Errorf("%d calls have to wait %v", n, wait)
	}
}

// tested returns a server and a process of it, without a connection.
func tested(t *testing.T) *session {
	t.Helper()
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if s.dev, err = nic.OpenLoopback(nic.Options{}); err != nil { // without the feeder: the test is its thread
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.dev.Close(); err != nil {
			t.Error(err)
		}
		s.feeder.close()
	})
	k := newSocket(s, nil, &process{pidfd: -1})
	c := &session{s: s, process: k.process, socket: k, rings: newRings(k)}
	if c.account, err = s.accounts.Open(s.now(), 1); err != nil {
		t.Fatal(err)
	}
	k.costs.now, k.costs.account, c.rings.costs.account = s.now, c.account, c.account
	if c.rings.doorbell, err = ring.OpenDoorbell(make([]byte, ring.DoorbellBytes+64)[:ring.DoorbellBytes]); err != nil {
		t.Fatal(err)
	}
	return c
}

// emptyQueue returns a queue of a ring without entries.
func emptyQueue(t *testing.T, r *rings) *queue {
	t.Helper()
	shape := ring.ShapeFor(1, 64)
	memory, err := ring.Open(make([]byte, shape.Bytes()), shape)
	if err != nil {
		t.Fatal(err)
	}
	q := newQueue(r, memory, shape)
	if _, err := r.number(q); err != nil {
		t.Fatal(err)
	}
	return q
}

// An iteration visits a bounded number of rings of a process that rings the doorbell for all of them
// without pause, and comes to each of them in turn.
func TestDoorbellStorm(t *testing.T) {
	r := tested(t).rings
	all := make([]*queue, ring.Queues)
	for i := range all {
		all[i] = emptyQueue(t, r)
	}
	storm := func() {
		for i := range all {
			r.doorbell.Set(uint32(i))
		}
	}
	storm()
	for left := ring.Queues; left > 0; left -= sessionBudget {
		if r.take(); len(r.sends) != left-sessionBudget {
			t.Fatalf("%d rings are left of %d, want %d fewer", len(r.sends), left, sessionBudget)
		}
	}
	storm()
	for i := range 3 * ring.Queues / sessionBudget {
		if n := r.take(); n > sessionBudget {
			t.Fatalf("iteration %d visits %d rings, want at most %d", i, n, sessionBudget)
		}
		if i < ring.Queues/sessionBudget {
			storm()
		}
	}
	if r.waiting() {
		t.Errorf("%d queues are left after the storm", len(r.sends))
	}
	if r.pending != [ring.Queues / 64]uint64{} {
		t.Error("a queue counts as pending and is not")
	}
}

// A queue that gets the number of one that was destroyed while it was pending is found by the doorbell.
func TestNumberIsUsedAgain(t *testing.T) {
	r := tested(t).rings
	first := emptyQueue(t, r)
	r.doorbell.Set(0)
	r.collect()
	if len(r.sends) != 1 {
		t.Fatal("the queue is not pending")
	}
	r.free(0, first)
	second := emptyQueue(t, r)
	r.doorbell.Set(0)
	r.collect()
	if len(r.sends) != 1 || r.sends[0] != second {
		t.Errorf("%d queues are pending, want the second one", len(r.sends))
	}
}

// A process whose signals take long, since it waits for its socket in thousands of places, loses its
// connection and gets no more of them.
func TestSlowSignals(t *testing.T) {
	runtime.LockOSThread() // the engine's thread
	defer runtime.UnlockOSThread()
	const epolls, copies = 400, 400 // each of these sees each copy of the socket
	r := tested(t).rings
	server, process, err := signalPair()
	if err != nil {
		t.Fatal(err)
	}
	fds := []int{server, process}
	defer func() { proto.CloseFDs(fds) }()
	r.signal, r.socket.conn = server, pairConn(t)
	b := make([]byte, 8)
	read := func() { _, _ = unix.Read(process, b) } // a full socket wakes nobody
	for range 10_000 {                              // also if each one seems to take long, since the thread waits for a processor
		r.costs.slowSignals = max(r.costs.slowSignals, 1)
		r.alert()
		read()
		if r.socket.over.Load() {
			t.Fatal("an honest process has lost its connection")
		}
	}
	for range copies {
		fd, err := unix.FcntlInt(uintptr(process), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	for range epolls {
		epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, epoll)
		for _, fd := range fds[2 : 2+copies] {
			if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 10 * maxSlowSignals {
		r.alert()
		read()
	}
	if !r.socket.over.Load() {
		t.Errorf("the connection goes on after signals with %d places to wake, %d slow ones in a row", epolls*copies, r.costs.slowSignals)
	}
}

// The signal after one that took long waits for the user's limit of such signals, and no other one does.
func TestLongSignalsOfUser(t *testing.T) {
	for slow := range 2 {
		r := tested(t).rings
		r.signal = -1 // which leads nowhere
		k := &r.costs
		k.slowSignals = slow
		k.account.SpendLongSignal(r.feeder.now(), time.Second) // as those to other processes of the user
		r.notify()
		if waits := k.deferredSignalAt != 0; waits != (slow == 1) {
			t.Errorf("after %d slow signals in a row: the next one waits: %t", slow, waits)
		}
	}
}

// A process without CAP_NET_BIND_SERVICE cannot listen at ports below 1024.
func TestPrivilegedPorts(t *testing.T) {
	require.Root(t)
	of := func(uid uint32) *process {
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			unix.Close(fd)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return &process{pid: uint32(cmd.Process.Pid), uid: uid, pidfd: fd}
	}
	root, nobody := of(0), of(65534)
	for port, want := range map[uint16]bool{0: false, 80: false, 1023: false, 1024: true, 20049: true} {
		id := mad.IPServiceID(mad.PortTCP, port)
		if err := nobody.mayListen(id); (err == nil) != want {
			t.Errorf("port %d without the capability: %v", port, err)
		}
		if err := root.mayListen(id); err != nil {
			t.Errorf("port %d with the capability: %v", port, err)
		}
	}
	root.pidfd = -1 // it has ended, and its number may be that of another process
	if root.mayListen(mad.IPServiceID(mad.PortTCP, 80)) == nil {
		t.Error("a process that has ended has a capability")
	}
}

// Lines for the log that a process causes are bounded, and the engine's thread never waits for them.
func TestNotes(t *testing.T) {
	k := tested(t).socket
	done := make(chan struct{})
	go func() {
		for range 100 * noteBacklog {
			k.warn("text")
		}
		close(done)
	}()
	testkit.Receive(t, "no line for the log waits", done)
	if n := len(k.s.notes); n != noteBacklog {
		t.Errorf("%d lines, want %d", n, noteBacklog)
	}
}

func pairConn(t *testing.T) *net.UnixConn {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(p[1])
	f := os.NewFile(uintptr(p[0]), "pair")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.UnixConn)
}
