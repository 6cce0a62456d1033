// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/card/wire"
	"github.com/softroce/softroce-xdp/hwoffload/queue"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// fourPorts makes two cards whose four ports are joined one to one; the ports of a card have one
// Ethernet address. Each is node 9 for the other.
func fourPorts(t *testing.T) (w *world, a, b *endpoint) {
	w = newWorld(t, 1)
	for i, s := range w.side {
		var err error
		other := w.side[1-i]
		s.d, err = queue.New(s.card, queue.Config{Base: ringBase, Bytes: ringBytes, Resolve: func(netip.Addr) (queue.Hop, error) {
			return queue.Hop{MAC: other.mac, Node: 9}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		for p := range regs.PortsCount {
			if err := s.d.SetPort(p, s.mac); err != nil {
				t.Fatal(err)
			}
		}
		s.route(0, other)
	}
	for p := range regs.PortsCount {
		w.net.Connect(w.side[0].m, p, w.side[1].m, p)
	}
	a, b = w.connect(verbs.RC, 0, rocev2.PMTU1024)
	return w, a, b
}

func (s *side) route(port int, other *side) {
	s.w.t.Helper()
	if err := s.d.SetNode(9, other.addr[0], port); err != nil {
		s.w.t.Fatal(err)
	}
}

// The port of the peer's node sends; a change moves a connection, in each direction by itself.
func TestPortOfNode(t *testing.T) {
	w, a, b := fourPorts(t)
	for p := range regs.PortsCount {
		back := (p + 1) % regs.PortsCount
		a.route(p, b.side)
		b.route(back, a.side)
		var before [2][regs.PortsCount]uint64
		count := func(s *side, i int) uint64 { return regs.PortsOf(s.card, i).TxPackets() }
		for i := range regs.PortsCount {
			before[0][i], before[1][i] = count(a.side, i), count(b.side, i)
		}
		data := a.fill(0, 10_000, uint64(p))
		a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 10_000)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
		a.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
		b.wants(0, data, "write")
		for i := range regs.PortsCount {
			if sent := count(a.side, i) - before[0][i]; (sent >= 10) != (i == p) || i != p && sent != 0 {
				t.Errorf("route by port %d: port %d sent %d packets", p, i, sent)
			}
			if acks := count(b.side, i) - before[1][i]; (acks > 0) != (i == back) {
				t.Errorf("route back by port %d: port %d sent %d packets", back, i, acks)
			}
		}
		if rx := regs.PortsOf(b.card, p).RxPackets(); rx != regs.PortsOf(a.card, p).TxPackets() {
			t.Errorf("port %d received %d packets", p, rx)
		}
	}
	w.quiet()
}

// A port that is switched off loses what is sent to it; the connection goes on by another port.
func TestPortDown(t *testing.T) {
	_, a, b := fourPorts(t)
	down := regs.PortsOf(b.card, 0)
	down.SetControl(down.Control().WithEnable(false))
	data := a.fill(0, 3000, 1)
	a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 3000)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
	if err := a.w.net.Run(second/10, wire.Quiet); err == nil || a.cq.Poll(make([]verbs.Completion, 1)) != 0 {
		t.Fatalf("completed over a port that is off (%v)", err)
	}
	a.route(2, b.side)
	b.route(3, a.side)
	a.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
	b.wants(0, data, "write")
	// A node that does not exist leads nowhere.
	regs.NodesOf(a.card).SetNode(8, 0)
	a.post(&verbs.SendWR{ID: 2, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 1)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
	a.completes(verbs.Completion{WRID: 2, Status: verbs.StatusRetryExceeded, Solicited: true})
}

// Frames with a wrong ICRC, to another Ethernet address or from another host are dropped.
func TestForeignFrames(t *testing.T) {
	for name, change := range map[string]func(frame []byte){
		"wrong ICRC":       func(f []byte) { f[len(f)-1] ^= 1 },
		"another MAC":      func(f []byte) { f[5] ^= 1 },
		"source address":   func(f []byte) { f[29] ^= 8 }, // the ICRC covers it
		"cut":              func(f []byte) { f[16]++ },
		"no RoCEv2 packet": func(f []byte) { f[12] = 9 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			a, b := w.connect(verbs.RC, 0, rocev2.PMTU1024)
			before := b.fill(0, 100, 5)
			w.net.Drop = func(f []byte) bool { change(f); return false }
			a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 100)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
			a.completes(verbs.Completion{WRID: 1, Status: verbs.StatusRetryExceeded, Solicited: true})
			b.wants(0, before, "memory")
			icrc := regs.PortsOf(b.card, 0).RxIcrcErrors()
			if want := name == "wrong ICRC" || name == "source address"; (icrc > 0) != want {
				t.Errorf("%d packets with a wrong ICRC", icrc)
			}
		})
	}
}

// A port with loopback receives what it sends: two queue pairs of one card are connected.
func TestLoopbackPort(t *testing.T) {
	w := newWorld(t, 1)
	w.side[1] = w.side[0]
	p := regs.PortsOf(w.side[0].card, 0)
	p.SetControl(p.Control().WithLoopback(true))
	a, b := w.connect(verbs.RC, 0, rocev2.PMTU1024)
	data := a.fill(0, 5000, 3)
	a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 5000)}, RemoteAddr: regionVA + 50_000, RKey: b.mr.RKey()})
	a.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
	b.wants(50_000, data, "write")
	if w.net.Sent != 0 {
		t.Errorf("%d frames left the card", w.net.Sent)
	}
}

// Two models run by themselves, joined by cables.
func TestRunning(t *testing.T) {
	_, a, b := fourPorts(t)
	var left, right [regs.PortsCount]card.Wire
	for i := range left {
		left[i], right[i] = wire.Cable(64)
	}
	runs := []*card.Running{card.Start(a.m, left), card.Start(b.m, right)}
	if !regs.PortsOf(a.card, 3).Status().Link() {
		t.Error("the link is down")
	}
	data := a.fill(0, 100_000, 1)
	b.receive(7, b.sge(0, 100_000))
	for range 3 { // READs bring back what the SEND has brought
		a.post(&verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 100_000)}})
		wait(t, a)
		wait(t, b)
		b.wants(0, data, "send")
		a.fill(0, 100_000, 99)
		a.post(&verbs.SendWR{ID: 2, Op: verbs.OpRead, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 100_000)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
		wait(t, a)
		a.wants(0, data, "read")
		b.receive(7, b.sge(0, 100_000))
	}
	for _, r := range runs {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// wait polls until a completion is there, which must be a success.
func wait(t *testing.T, e *endpoint) {
	t.Helper()
	var got [1]verbs.Completion
	for deadline := time.Now().Add(time.Minute); e.cq.Poll(got[:]) == 0; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no completion within a minute: %v", e.cq.Err())
		}
	}
	if got[0].Status != verbs.StatusSuccess {
		t.Fatalf("%+v", got[0])
	}
}

// A device after its failure reports it, and nothing waits.
func TestDeadDevice(t *testing.T) {
	m := card.New()
	c, err := hwoffload.Open(m)
	if err != nil {
		t.Fatal(err)
	}
	d, err := queue.New(c, queue.Config{Bytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.CreateCQ(16)
	if err != nil {
		t.Fatal(err)
	}
	m.R32(3) // not aligned: no access works from here on
	if _, err := d.RegMR(queue.Spec{PD: 1, Len: 4096}); err == nil {
		t.Error("a region on a dead device")
	}
	if _, err := d.CreateQP(queue.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}); err == nil {
		t.Error("a queue pair on a dead device")
	}
	if n := cq.Poll(make([]verbs.Completion, 16)); n != 0 || cq.Err() == nil {
		t.Errorf("%d completions, %v", n, cq.Err())
	}
}
