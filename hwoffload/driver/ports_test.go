// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// fourPorts makes two cards whose four ports are joined one to one; the ports of a card have one
// Ethernet address. Each is node 9 for the other.
func fourPorts(t *testing.T) (w *world, a, b *endpoint) {
	w = newWorld(t, 1)
	for i, s := range w.side {
		err := s.d.Close()
		if err != nil {
			t.Fatal(err)
		}
		other := w.side[1-i]
		s.d, err = driver.New(s.card, driver.Config{RingBytes: ringBytes, Resolve: func(netip.Addr) (driver.Hop, error) {
			return driver.Hop{MAC: other.mac, Node: 9}, nil
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
	data, before := a.fill(0, 3000, 1), b.fill(0, 3000, 2)
	a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 3000)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
	if err := a.w.net.Run(second/10, card.Quiet); err == nil || a.cq.Poll(make([]verbs.Completion, 1)) != 0 {
		t.Fatalf("completed over a port that is off (%v)", err)
	}
	b.wants(0, before, "memory behind a port that is off")
	own := regs.PortsOf(a.card, 0)
	own.SetControl(own.Control().WithEnable(false))
	sent := own.TxPackets()
	if err := a.w.net.Run(second/5, card.Quiet); err == nil || own.TxPackets() != sent {
		t.Errorf("a port that is off sent %d packets (%v)", own.TxPackets()-sent, err)
	}
	own.SetControl(own.Control().WithEnable(true))
	a.route(2, b.side)
	b.route(3, a.side)
	a.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
	b.wants(0, data, "write")
	// A node that does not exist leads nowhere, not even to the port of its element.
	down.SetControl(down.Control().WithEnable(true))
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

// A packet of another host to a connected queue pair is dropped, though its ICRC is correct: the
// requester connects again with another address, and its peer does not.
func TestForeignHost(t *testing.T) {
	unknown := netip.MustParseAddr("10.0.0.77")
	for name, change := range map[string]func(local, remote *verbs.Endpoint){
		"nothing":     func(_, _ *verbs.Endpoint) {},
		"source":      func(local, _ *verbs.Endpoint) { local.Addr = unknown },
		"destination": func(_, remote *verbs.Endpoint) { remote.Addr = unknown },
	} {
		t.Run(name, func(t *testing.T) {
			w, a, b := fourPorts(t)
			before := b.fill(0, 100, 5)
			local, remote := verbs.Endpoint{Addr: a.addr[0], QPN: a.qp.QPN(), PSN: 0xfffffd}, verbs.Endpoint{Addr: b.addr[0], QPN: b.qp.QPN(), PSN: 77}
			change(&local, &remote)
			if err := errors.Join(a.qp.Modify(verbs.Attr{}, verbs.MaskState), verbs.Connect(a.qp, local, remote, verbs.DefaultAttr())); err != nil {
				t.Fatal(err)
			}
			a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 100)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
			if name == "nothing" {
				a.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
				return
			}
			a.completes(verbs.Completion{WRID: 1, Status: verbs.StatusRetryExceeded, Solicited: true})
			b.wants(0, before, "memory")
			if p := regs.PortsOf(b.card, 0); p.RxPackets() == 0 || p.RxIcrcErrors() != 0 {
				t.Errorf("%d packets arrived after %v", p.RxPackets(), w.net.Now())
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
		left[i], right[i] = card.Cable(64)
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
	testkit.Eventually(t, "a completion", func() error {
		if e.cq.Poll(got[:]) == 0 {
			return fmt.Errorf("none, %v", e.cq.Err())
		}
		return nil
	})
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
	d, err := driver.New(c, driver.Config{RingBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	pd, err1 := d.AllocPD()
	cq, err2 := d.CreateCQ(16)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	m.R32(3) // not aligned: no access works from here on
	if _, err := d.RegMR(driver.Spec{PD: 1, Len: 4096}); err == nil {
		t.Error("a region on a dead device")
	}
	if _, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}); err == nil {
		t.Error("a queue pair on a dead device")
	}
	if n := cq.Poll(make([]verbs.Completion, 16)); n != 0 || cq.(*driver.CQ).Err() == nil {
		t.Errorf("%d completions, %v", n, cq.(*driver.CQ).Err())
	}
}

// A queue pair is refused a PMTU for which its port has no room, and what does not exist.
func TestModifyRefuses(t *testing.T) {
	w := newWorld(t, 1)
	a := w.side[0].endpoint(verbs.RC)
	port := regs.PortsOf(a.card, 0)
	port.SetMtu(port.Mtu().WithBytes(1500))
	attr := verbs.DefaultAttr()
	attr.PMTU = rocev2.PMTU2048
	end := verbs.Endpoint{Addr: a.addr[0], QPN: a.qp.QPN()}
	peer := verbs.Endpoint{Addr: w.side[1].addr[0], QPN: 7}
	if err := verbs.Connect(a.qp, end, peer, attr); err == nil || a.qp.State() != verbs.StateInit {
		t.Errorf("PMTU 2048 at a port of MTU 1500: %v, state %v", err, a.qp.State())
	}
	// In INIT a send queue takes nothing; receives may be posted.
	a.receive(1, a.sge(0, 1))
	regs.DoorbellsOf(a.card, 0).SetSq(regs.DoorbellsSq(0).WithSqQueue(a.qp.QPN()).WithSqProducer(1))
	if e := a.qp.Events(); !e.BadDoorbell() || e.BadWqe() {
		t.Errorf("a doorbell in INIT: events %#x", e)
	}
	attr.PMTU = rocev2.PMTU1024
	if err := verbs.Connect(a.qp, end, peer, attr); err != nil {
		t.Error(err)
	}
	e := regs.QpOf(a.card, 100)
	for name, change := range map[string]func(){
		"correct":             func() {},
		"no completion queue": func() { e.SetQueues(regs.QpQueues(0).WithRecvCq(900)) },
		"short send entry":    func() { e.SetRings(e.Rings().WithSqEntryLog2(5)) },
		"long send entry":     func() { e.SetRings(e.Rings().WithSqEntryLog2(11)) },
		"short receive entry": func() { e.SetRings(e.Rings().WithRqEntryLog2(4)) },
		"ring beyond the DDR": func() { e.SetSqBase(regs.QpSqBase(0).WithSqAddress(1<<34 - 64)) },
		"ring misaligned":     func() { e.SetRqBase(regs.QpRqBase(0).WithRqAddress(1<<30 + 8)) },
		"no shared queue":     func() { e.SetConfig(e.Config().WithUseSrq(true)) },
		"no service":          func() { e.SetConfig(e.Config().WithQpType(7)) },
	} {
		e.SetConfig(regs.QpConfig(0).WithQpType(1))
		e.SetQueues(0)
		e.SetRings(regs.QpRings(0).WithSqEntryLog2(7).WithSqLog2(4).WithRqEntryLog2(5))
		e.SetSqBase(1 << 30)
		e.SetRqBase(1 << 30)
		change()
		e.SetModify(regs.QpModify(0).WithTo(uint32(verbs.StateInit)).WithAttributes(1 << 6).WithModifyStart(true))
		if s := e.Status(); s.Refused() != (name != "correct") {
			t.Errorf("%s: status %#x", name, s)
		}
		e.SetModify(regs.QpModify(0).WithTo(uint32(verbs.StateReset)).WithModifyStart(true))
	}
	for _, i := range []int{0, 1} {
		e := regs.QpOf(a.card, i)
		e.SetModify(regs.QpModify(0).WithTo(uint32(verbs.StateReset)).WithModifyStart(true))
		if !e.Status().Refused() {
			t.Errorf("queue pair %d is one of IBTA's", i)
		}
	}
}
