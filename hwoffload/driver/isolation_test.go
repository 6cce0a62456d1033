// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// Isolation (S2.6): a request with a wrong key, protection domain, range or right is refused with
// the NAK of IBTA 9.7.5.2.8, ends with the status that belongs to it, and changes no byte.
func TestIsolation(t *testing.T) {
	const other = 1 << 33 // DDR address of regions that the case makes
	write := func(wr *verbs.SendWR) { wr.Op = verbs.OpWrite }
	read := func(wr *verbs.SendWR) { wr.Op = verbs.OpRead }
	atomic := func(wr *verbs.SendWR) { wr.Op, wr.SGL[0].Len = verbs.OpFetchAdd, 8 }
	region := func(b *endpoint, pd *driver.PD, rights verbs.Access) *driver.MR {
		return b.register(driver.Spec{PD: pd.Number(), Access: rights, Addr: other, Len: 4096, VA: regionVA})
	}
	for _, c := range []struct {
		name   string
		op     func(wr *verbs.SendWR)
		change func(wr *verbs.SendWR, a, b *endpoint)
		nak    rocev2.NAKCode // 0: nothing is sent
		status verbs.Status
	}{
		{"write, unknown key", write, func(wr *verbs.SendWR, _, b *endpoint) { wr.RKey ^= 0x100 }, rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess},
		{"write, key of no region", write, func(wr *verbs.SendWR, _, b *endpoint) { wr.RKey = 77<<16 | 1 }, rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess},
		{"write, key beyond the table", write, func(wr *verbs.SendWR, _, b *endpoint) { wr.RKey = 0xffff1234 }, rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess},
		{"write, other domain", write, func(wr *verbs.SendWR, _, b *endpoint) { wr.RKey = region(b, b.newPD(), allRights).RKey() }, rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess},
		{"write, one byte too far", write, func(wr *verbs.SendWR, _, b *endpoint) { wr.RemoteAddr = regionVA + regionBytes - 2999 }, rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess},
		{"write, one byte before", write, func(wr *verbs.SendWR, _, b *endpoint) { wr.RemoteAddr = regionVA - 1 }, rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess},
		{"write, address wraps", write, func(wr *verbs.SendWR, _, b *endpoint) { wr.RemoteAddr = ^uint64(0) - 9 }, rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess},
		{"write, no right", write, func(wr *verbs.SendWR, _, b *endpoint) {
			wr.RKey = region(b, b.pd, verbs.AccessLocalWrite|verbs.AccessRemoteRead).RKey()
		}, rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess},
		{"read, no right", read, func(wr *verbs.SendWR, _, b *endpoint) {
			wr.RKey = region(b, b.pd, verbs.AccessLocalWrite|verbs.AccessRemoteWrite).RKey()
		}, rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess},
		{"read, one byte too far", read, func(wr *verbs.SendWR, _, b *endpoint) { wr.RemoteAddr = regionVA + regionBytes - 2999 }, rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess},
		{"atomic, no right", atomic, func(wr *verbs.SendWR, _, b *endpoint) {
			wr.RKey = region(b, b.pd, verbs.AccessLocalWrite|verbs.AccessRemoteWrite).RKey()
		}, rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess},
		{"atomic, misaligned", atomic, func(wr *verbs.SendWR, _, b *endpoint) { wr.RemoteAddr = regionVA + 4 }, rocev2.NAKInvalidRequest, verbs.StatusRemoteInvalidRequest},
		{"write, region gone", write, func(wr *verbs.SendWR, _, b *endpoint) {
			m := region(b, b.pd, allRights)
			wr.RKey = m.RKey()
			if err := m.Deregister(); err != nil {
				t.Error(err)
			}
		}, rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess},
		{"own memory, unknown key", write, func(wr *verbs.SendWR, a, _ *endpoint) { wr.SGL[0].LKey ^= 0x100 }, 0, verbs.StatusLocalProtection},
		{"own memory, other domain", write, func(wr *verbs.SendWR, a, _ *endpoint) { wr.SGL[0].LKey = region(a, a.newPD(), allRights).LKey() }, 0, verbs.StatusLocalProtection},
		{"own memory, too far", write, func(wr *verbs.SendWR, a, _ *endpoint) { wr.SGL[0].Addr = regionVA + regionBytes - 500 }, 0, verbs.StatusLocalProtection},
		{"own memory, read only", read, func(wr *verbs.SendWR, a, _ *endpoint) { wr.SGL[0].LKey = region(a, a.pd, 0).LKey() }, 0, verbs.StatusLocalProtection},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			a, b := w.connect(verbs.RC, 0, rocev2.PMTU1024)
			a.fill(0, regionBytes, 1)
			before := b.fill(0, regionBytes, 2)
			var naks []rocev2.NAKCode
			w.net.Drop = func(frame []byte) bool {
				p, err := rocev2.ParseFrame(frame)
				if err != nil {
					t.Fatal(err)
				}
				if h := p.AETH(); h != nil {
					if code, ok := h.Syndrome().NAK(); ok {
						naks = append(naks, code)
					}
				}
				return false
			}
			wr := verbs.SendWR{ID: 1, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 3000)}, RemoteAddr: regionVA, RKey: b.mr.RKey(), Add: 1}
			c.op(&wr)
			c.change(&wr, a, b)
			a.post(&wr)
			a.completes(verbs.Completion{WRID: 1, Status: c.status, Solicited: true})
			w.quiet()
			switch {
			case c.nak == 0 && len(naks) != 0, c.nak != 0 && (len(naks) != 1 || naks[0] != c.nak):
				t.Errorf("NAKs %v, want %v", naks, c.nak)
			case a.qp.State() != verbs.StateErr:
				t.Errorf("the requester is in %v", a.qp.State())
			}
			if c.nak != 0 && b.qp.State() != verbs.StateErr {
				t.Errorf("the responder is in %v", b.qp.State())
			}
			b.wants(0, before, "memory of the peer")
			for _, e := range []*endpoint{a, b} {
				got := make([]byte, 4096)
				if _, err := e.card.DDR().ReadAt(got, other); err != nil || !bytes.Equal(got, make([]byte, 4096)) {
					t.Errorf("the region at %#x was written (%v)", uint64(other), err)
				}
			}
		})
	}
}

// A WQE that is not valid ends its queue pair, and no other one.
func TestBadWQE(t *testing.T) {
	for name, change := range map[string]func(b []byte){
		"no operation":                 func(b []byte) { wqe.Wqe(b).SetOpcode(0) },
		"unknown operation":            func(b []byte) { wqe.Wqe(b).SetOpcode(wqe.WqeOpcodeBindWindow + 1) },
		"list longer than the entry":   func(b []byte) { wqe.Wqe(b).SetCount(0xffff) },
		"inline longer than the entry": func(b []byte) { wqe.Wqe(b).SetInline(true); wqe.Wqe(b).SetCount(0xffff) },
		"inline read":                  func(b []byte) { wqe.Wqe(b).SetInline(true); wqe.Wqe(b).SetOpcode(wqe.WqeOpcodeRead) },
		"atomic of a wrong length":     func(b []byte) { wqe.Wqe(b).SetOpcode(wqe.WqeOpcodeFetchAdd) },
		"message longer than 2^31":     func(b []byte) { wqe.Sge(b[wqe.WqeBytes:]).SetLength(1<<31 + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			a, b := w.connect(verbs.RC, 0, rocev2.PMTU1024)
			c, d := w.connect(verbs.RC, 0, rocev2.PMTU1024)
			// The first WQE is correct. The second is a changed copy, which only an application
			// with a driver of its own could write.
			wr := verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 100)}, RemoteAddr: regionVA, RKey: b.mr.RKey()}
			a.post(&wr)
			a.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
			e := regs.QpOf(a.card, int(a.qp.QPN()))
			entry := make([]byte, 1<<e.Rings().SqEntryLog2())
			base := int64(e.SqBase().SqAddress())
			if _, err := a.card.DDR().ReadAt(entry, base); err != nil {
				t.Fatal(err)
			}
			wqe.Wqe(entry).SetWrId(2)
			change(entry)
			if _, err := a.card.DDR().WriteAt(entry, base+int64(len(entry))); err != nil {
				t.Fatal(err)
			}
			regs.DoorbellsOf(a.card, 0).SetSq(regs.DoorbellsSq(0).WithSqQueue(a.qp.QPN()).WithSqProducer(2))
			a.completes(verbs.Completion{WRID: 2, Status: verbs.StatusLocalQPOperation, Solicited: true})
			if !a.qp.Events().BadWqe() || a.qp.State() != verbs.StateErr {
				t.Errorf("events %#x, state %v", a.qp.Events(), a.qp.State())
			}
			if irq := regs.InterruptsOf(a.card); !irq.Causes().QueuePair() || irq.QpEvent(0)>>a.qp.QPN()&1 == 0 {
				t.Errorf("causes %#x, events %#x", irq.Causes(), irq.QpEvent(0))
			}
			stillWorks(c, d)
		})
	}
}

func stillWorks(c, d *endpoint) {
	c.w.t.Helper()
	data := c.fill(0, 2000, 9)
	c.post(&verbs.SendWR{ID: 5, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{c.sge(0, 2000)}, RemoteAddr: regionVA, RKey: d.mr.RKey()})
	c.completes(verbs.Completion{WRID: 5, Op: verbs.OpWrite})
	d.wants(0, data, "write of another queue pair")
}

// A doorbell that is wrong has no effect but an event.
func TestBadDoorbells(t *testing.T) {
	w := newWorld(t, 1)
	a, _ := w.connect(verbs.RC, 0, rocev2.PMTU1024)
	c, d := w.connect(verbs.RC, 0, rocev2.PMTU1024)
	n := a.qp.QPN()
	sq := func(page int, qpn, producer uint32) {
		regs.DoorbellsOf(a.card, page).SetSq(regs.DoorbellsSq(0).WithSqQueue(qpn).WithSqProducer(producer))
	}
	idle := a.newQP(a.pd, verbs.QPInit{Type: verbs.RC, SendCQ: a.cq, RecvCQ: a.cq})
	irq := regs.InterruptsOf(a.card)
	irq.SetMask(irq.Mask().WithDoorbellOn(true))
	for name, ring := range map[string]func(){
		"unknown queue pair": func() { sq(0, 4000, 1) },
		"in RESET":           func() { sq(0, idle.QPN(), 1) },
		"beyond the ring":    func() { sq(0, n, 17) },
		"backwards":          func() { sq(0, n, 0xffff) },
		"another page":       func() { sq(1, n, 1) },
		"receive, beyond":    func() { regs.DoorbellsOf(a.card, 0).SetRq(regs.DoorbellsRq(0).WithRqQueue(n).WithRqProducer(17)) },
		"receive, unknown":   func() { regs.DoorbellsOf(a.card, 0).SetRq(regs.DoorbellsRq(0).WithRqQueue(4000).WithRqProducer(1)) },
		"completion queue":   func() { regs.DoorbellsOf(a.card, 0).SetCq(regs.DoorbellsCq(0).WithCqQueue(1000)) },
		"consumer beyond":    func() { regs.DoorbellsOf(a.card, 0).SetCq(regs.DoorbellsCq(0).WithCqConsumer(1)) },
		"arm, unknown":       func() { regs.DoorbellsOf(a.card, 0).SetArm(regs.DoorbellsArm(0).WithArmQueue(1000)) },
	} {
		t.Run(name, func(t *testing.T) {
			irq.SetCauses(irq.Causes())
			before := irq.BadDoorbells()
			ring()
			if irq.BadDoorbells() != before+1 || !irq.Causes().Doorbell() {
				t.Errorf("%d refused, causes %#x", irq.BadDoorbells()-before, irq.Causes())
			}
			select {
			case <-a.m.Interrupt():
			default:
				t.Error("no interrupt")
			}
			if a.qp.State() != verbs.StateRTS || regs.QpOf(a.card, int(n)).SqConsumed() != 0 {
				t.Errorf("state %v", a.qp.State())
			}
		})
	}
	stillWorks(c, d)
}

// One completion more than the queue has room for is an overrun: its queue pairs go to ERR, others
// do not.
func TestOverrun(t *testing.T) {
	w := newWorld(t, 1)
	a, b := w.connect(verbs.RC, 0, rocev2.PMTU1024)
	c, d := w.connect(verbs.RC, 0, rocev2.PMTU1024)
	for i := range a.cq.Depth() + 1 {
		if err := a.qp.PostSend(&verbs.SendWR{ID: uint64(i), Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 1)}, RemoteAddr: regionVA, RKey: b.mr.RKey()}); err != nil {
			t.Fatal(err)
		}
		w.quiet()
		if want := i == a.cq.Depth(); (a.qp.State() == verbs.StateErr) != want || (a.cq.Err() != nil) != want {
			t.Fatalf("after %d completions: %v, %v", i+1, a.qp.State(), a.cq.Err())
		}
	}
	if n := a.cq.Poll(make([]verbs.Completion, 300)); n != a.cq.Depth() {
		t.Errorf("%d completions", n)
	}
	stillWorks(c, d)
}

// A completion queue that the driver removes too early takes its queue pairs along, and the card does
// not write to its ring any more.
func TestQueueRemovedTooEarly(t *testing.T) {
	w := newWorld(t, 1)
	a, b := w.connect(verbs.RC, 0, rocev2.PMTU1024)
	c, d := w.connect(verbs.RC, 0, rocev2.PMTU1024)
	a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 100)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
	e := regs.CqOf(a.card, 0) // that of a, the first
	ring := make([]byte, a.cq.Depth()*wqe.CqeBytes)
	e.SetControl(0)
	w.quiet()
	if a.qp.State() != verbs.StateErr {
		t.Errorf("the queue pair is in %v", a.qp.State())
	}
	if _, err := a.card.DDR().ReadAt(ring, int64(e.Ring().CqAddress())); err != nil || !bytes.Equal(ring, make([]byte, len(ring))) {
		t.Errorf("the ring was written (%v)", err)
	}
	stillWorks(c, d)
}

// An armed queue causes one interrupt; with solicited only for completions that are.
func TestArm(t *testing.T) {
	w := newWorld(t, 1)
	a, b := w.connect(verbs.RC, 0, rocev2.PMTU1024)
	irq := regs.InterruptsOf(b.card)
	send := func(flags verbs.Flags) {
		b.receive(1, b.sge(0, 10))
		a.post(&verbs.SendWR{Op: verbs.OpSend, Flags: flags, SGL: []verbs.SGE{a.sge(0, 10)}})
		w.quiet()
	}
	causes := func() bool {
		is := irq.Causes().Completion() && irq.CqReady(0) == 1
		irq.SetCauses(irq.Causes())
		irq.SetCqReady(0, irq.CqReady(0))
		return is
	}
	send(0)
	if causes() {
		t.Error("an interrupt of a queue that is not armed")
	}
	b.cq.RequestNotify(true)
	if send(0); causes() {
		t.Error("an interrupt of a completion that is not solicited")
	}
	if send(verbs.Solicited); !causes() {
		t.Error("no interrupt of a solicited completion")
	}
	if send(verbs.Solicited); causes() {
		t.Error("a second interrupt")
	}
	b.cq.RequestNotify(false)
	if send(0); !causes() {
		t.Error("no interrupt of a completion")
	}
}
