// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"cmp"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// pairOf starts two processes that are connected with each other.
func pairOf(t *testing.T, dir string) [2]*process {
	t.Helper()
	p := [2]*process{start(t, "peer", dir), start(t, "peer", dir)}
	a, b := p[0].line("address "), p[1].line("address ")
	p[0].say("connect " + b)
	p[1].say("connect " + a)
	both(p, "done")
	return p
}

func both(p [2]*process, prefix string) {
	p[0].t.Helper()
	p[0].line(prefix)
	p[1].line(prefix)
}

// transfer has both processes move their data by an operation, and check what has arrived.
func transfer(p [2]*process, how string) {
	p[0].t.Helper()
	for _, verb := range []string{how, "check"} {
		p[0].say(verb)
		p[1].say(verb)
		both(p, "done")
	}
}

// Two processes exchange data in all ways.
func TestTwoProcesses(t *testing.T) {
	_, dir := serve(t, device.Config{})
	p := pairOf(t, dir)
	for range 3 {
		for _, how := range []string{"write", "read", "send"} {
			transfer(p, how)
		}
	}
}

// A process is killed while it transfers data, while its peer does, while it registers memory, and while it connects.
// Its peer gets an error, all that it had is free again, and other processes are not disturbed.
func TestKilledProcess(t *testing.T) {
	for name, c := range map[string]struct {
		how    string // operation of both
		second string // operation of the one that is not killed, if it is another one
	}{
		"write": {"forever write", ""}, "read": {"forever read", ""}, "send": {"forever send", ""},
		"target of a write": {"register", "forever write"}, "target of a read": {"register", "forever read"},
		"registers memory": {"register", "register"},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := serve(t, device.Config{})
			others, victims := pairOf(t, dir), pairOf(t, dir)
			before := s.Status()
			for i, v := range victims {
				v.say([]string{c.how, cmp.Or(c.second, c.how)}[i])
			}
			both(victims, "done")
			transfer(others, "write")
			victims[0].kill()
			transfer(others, "read")
			if c.second == "register" { // it does not notice
				victims[1].kill()
			} else if got := victims[1].line("error: "); !strings.Contains(got, verbs.StatusRetryExceeded.String()) {
				t.Errorf("the peer of the killed process got %q", got)
			}
			transfer(others, "send")
			testkit.Eventually(t, "the processes have ended", func() bool { return len(s.Status().Processes) == len(before.Processes)-2 })
			for _, p := range s.Status().Processes {
				if p.PID == victims[0].cmd.Process.Pid {
					t.Errorf("%+v is left of a process that is dead", p)
				}
			}
			transfer(pairOf(t, dir), "write")
		})
	}
}

// A process is killed while it connects, again and again: what it had is free, and others connect.
func TestKilledWhileConnecting(t *testing.T) {
	s, dir := serve(t, device.Config{})
	server := start(t, "connected", dir)
	server.line("ready")
	for range 3 {
		addr := server.tell("listen")
		killed, next := start(t, "connected", dir), start(t, "connected", dir)
		killed.line("ready")
		next.line("ready")
		server.say("accept")
		killed.say("dials " + addr)
		killed.line("done")
		server.line("done ")
		killed.kill()
		addr = server.tell("listen") // another one: requests of the dead may still wait at the first
		server.say("accept")
		next.tell("dial " + addr)
		server.line("done ")
		next.tell("send")
		server.tell("recv")
		next.kill()
		testkit.Eventually(t, "one process is left", func() bool { return len(s.Status().Processes) == 1 })
	}
}

// The server is killed: clients notice, nothing hangs, and the next server is opened.
func TestKilledServer(t *testing.T) {
	dir := testkit.SocketDir(t)
	first := start(t, "server", dir)
	first.line("serves")
	p := pairOf(t, dir)
	p[0].say("fatal")
	p[0].line("done")
	first.kill()
	p[0].line("ended:")
	p[0].line("done")
	second := start(t, "server", dir)
	second.line("serves")
	transfer(pairOf(t, dir), "write")
}

// The server ends: who waits returns, everything else fails at once, and the socket is gone.
func TestServerCloses(t *testing.T) {
	s, dir := serve(t, device.Config{})
	d := open(t, dir)
	e := newEnd(t, d, 4096, verbs.QPInit{Type: verbs.RC})
	waits := make(chan error)
	go func() { waits <- e.cq.Wait(t.Context(), false) }()
	go func() { waits <- e.cq.Wait(t.Context(), true) }()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	<-s.Ended()
	for range 2 {
		if err := <-waits; !errors.Is(err, verbs.ErrGone) {
			t.Errorf("the wait returned %v", err)
		}
	}
	if ev := <-d.Events(); ev.Type != verbs.EventDeviceFatal || !errors.Is(ev.Err, verbs.ErrGone) {
		t.Errorf("%+v", ev)
	}
	_, portErr := d.Port()
	for what, err := range map[string]error{"a call": portErr, "a post": e.qp.PostSend(&verbs.SendWR{}), "a receive": e.qp.PostRecv(&verbs.RecvWR{})} {
		if !errors.Is(err, verbs.ErrGone) {
			t.Errorf("%s returned %v", what, err)
		}
	}
	if _, err := client.Open(t.Context(), "lo", client.Config{RunDir: dir}); err == nil || !strings.Contains(err.Error(), "attach --nic") {
		t.Errorf("open: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, open := <-d.Events(); open {
		t.Error("the events are not closed")
	}
}

// The status, as the command reads it.
func TestReadStatus(t *testing.T) {
	s, dir := serve(t, device.Config{})
	newBystander(t, dir)
	got, err := device.ReadStatus(t.Context(), proto.SocketPath(dir, "lo"))
	if err != nil || !reflect.DeepEqual(got, s.Status()) || len(got.Processes) != 2 {
		t.Errorf("%+v, %v; want %+v", got, err, s.Status())
	}
	for _, p := range got.Processes {
		if p.PID != os.Getpid() || p.QPs != 1 || p.MRs != 1 || p.Bytes != 1<<16 || p.Arenas != 1<<20 || p.CQEntries != 256 {
			t.Errorf("%+v", p)
		}
	}
}
