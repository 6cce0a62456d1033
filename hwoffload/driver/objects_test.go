// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Wait returns for what it waits for, and ends with its context, its queue and its device.
func TestWait(t *testing.T) {
	w := newLiveWorld(t, card.Faults{}, false)
	a, b := w.pair(rc)
	w.connect(a, b)
	send := func(f verbs.Flags) {
		w.must(b.qp.PostRecv(&verbs.RecvWR{}))
		w.must(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: f}))
	}
	send(0)
	w.must(b.cq.Wait(w.limit(), false))
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := b.cq.Wait(short, true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a completion that is not solicited: %v", err)
	}
	send(verbs.Solicited)
	w.must(b.cq.Wait(w.limit(), true))
	var c [4]verbs.Completion
	if n := b.cq.Poll(c[:]); n != 2 || c[0].Solicited || !c[1].Solicited {
		t.Errorf("%+v", c[:n])
	}
	ended := make(chan error, 1)
	wait := func(q verbs.CQ) {
		go func() { ended <- q.Wait(context.Background(), false) }()
		time.Sleep(time.Millisecond) // so that it waits, mostly: the result is the same
	}
	other, err := b.dev.CreateCQ(10)
	w.must(err)
	wait(other)
	w.must(other.Destroy())
	if err := <-ended; !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("destroyed: %v", err)
	}
	wait(b.cq)
	if err := b.cq.Destroy(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("with a queue pair: %v", err)
	}
	w.must(b.dev.Close())
	if err := <-ended; !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, open := <-drained(b); open {
		t.Error("events after Close")
	}
}

// drained returns the device's events, without those that are there.
func drained(n *node) <-chan verbs.Event {
	for len(n.dev.Events()) > 0 {
		<-n.dev.Events()
	}
	return n.dev.Events()
}

// An overrun is an event, and ends the queue pairs.
func TestOverrunEvent(t *testing.T) {
	w := newLiveWorld(t, card.Faults{}, false)
	a, b := w.pair(rc)
	small, err := b.dev.CreateCQ(2)
	w.must(err)
	b.qp, err = b.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: small, RecvCQ: small})
	w.must(err)
	w.connect(a, b)
	for range 3 {
		w.must(b.qp.PostRecv(&verbs.RecvWR{}))
		w.must(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}))
	}
	for e := (verbs.Event{}); e.Type != verbs.EventCQError; {
		if e = event(t, b); e.Type == verbs.EventCQError && e.CQ != small {
			t.Errorf("%+v", e)
		}
	}
	for ctx := w.limit(); b.qp.State() != verbs.StateErr; {
		w.must(ctx.Err())
	}
}

// Mistakes have the errors of package verbs, and nothing is queued.
func TestMistakes(t *testing.T) {
	w := newLiveWorld(t, card.Faults{}, false)
	a, b := w.pair(rc)
	m := a.memory(make([]byte, 64), allRights)
	post := func(wr verbs.SendWR) error { return a.qp.PostSend(&wr) }
	if err := post(verbs.SendWR{Op: verbs.OpSend}); !errors.Is(err, verbs.ErrSendState) {
		t.Errorf("INIT: %v", err)
	}
	fresh, err := a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: a.cq, RecvCQ: a.cq})
	w.must(err)
	if err := fresh.PostRecv(&verbs.RecvWR{}); !errors.Is(err, verbs.ErrRecvState) {
		t.Errorf("RESET: %v", err)
	}
	w.connect(a, b)
	for want, wr := range map[error]verbs.SendWR{
		verbs.ErrOp: {Op: 99}, verbs.ErrSGL: {Op: verbs.OpSend, SGL: append(sge(m, 0, 1), sge(m, 0, 1)...)},
		verbs.ErrInline:  {Op: verbs.OpSend, Flags: verbs.Inline, Data: []byte{1}},
		verbs.ErrTooLong: {Op: verbs.OpSend, SGL: []verbs.SGE{{Len: 1<<31 + 1}}}, verbs.ErrAtomic: {Op: verbs.OpFetchAdd, SGL: sge(m, 0, 4)},
	} {
		if err := post(wr); !errors.Is(err, want) {
			t.Errorf("%v: %v", want, err)
		}
	}
	if attr, err := a.qp.Query(); err != nil || attr.State != verbs.StateRTS || attr.DestQPN != b.qp.QPN() || attr.AV.Dst != b.addr || attr.MaxRdAtomic != 16 {
		t.Errorf("%+v, %v", attr, err)
	}
	if _, err := a.pd.RegMR(make([]byte, 8), 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("memory of the process: %v", err)
	}
	if _, err := a.pd.(verbs.DeviceMemory).AllocDM(0, 0); !errors.Is(err, verbs.ErrRange) {
		t.Errorf("no bytes: %v", err)
	}
	free := a.card.Allocator().Available()
	if _, err := a.pd.(verbs.DeviceMemory).AllocDM(64, verbs.AccessRemoteWrite); !errors.Is(err, verbs.ErrAccess) || a.card.Allocator().Available() != free {
		t.Errorf("remote write without local write: %v", err)
	}
	if _, err := a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: b.cq, RecvCQ: a.cq}); err == nil {
		t.Error("a completion queue of another device")
	}
	other, err := a.dev.AllocPD()
	w.must(err)
	srq, err := other.CreateSRQ(4, 1)
	w.must(err)
	if _, err := a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: a.cq, RecvCQ: a.cq, SRQ: srq}); err == nil {
		t.Error("a shared receive queue of another protection domain")
	}
	for what, err := range map[string]error{"QP": fresh.Destroy(), "memory": m.Deregister()} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := fresh.Modify(verbs.Attr{}, verbs.MaskState); !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("a queue pair that was destroyed: %v", err)
	}
	if l := a.dev.Limits(); l.SGE < 16 || l.Inline < 256 || l.WR < 1024 || l.CQ < 1024 || l.MaxRdAtomic < 16 {
		t.Errorf("%+v", l)
	}
	a.m.Put(regs.PortsBase+regs.PortsStatusOffset, uint32(regs.PortsStatus(0).WithLink(true)))
	if p, err := a.dev.Port(); err != nil || !p.Active || p.MTU < 1500 || len(p.GIDs) != 1 || p.GIDs[0] != a.addr {
		t.Errorf("%+v, %v", p, err)
	}
}

// Close ends what is left and gives all memory back. A card without queue pairs, and one that has
// failed, are errors and events.
func TestOpenClose(t *testing.T) {
	m := card.New()
	c, err := hwoffload.Open(m)
	if err != nil {
		t.Fatal(err)
	}
	free := c.Allocator().Available()
	for range 3 {
		d, err := driver.Open(c, driver.Config{})
		if err != nil {
			t.Fatal(err)
		}
		pd, err := d.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		cq, err1 := d.CreateCQ(10)
		_, err2 := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
		_, err3 := pd.(verbs.DeviceMemory).AllocDM(1<<20, verbs.AccessLocalWrite)
		_, err4 := pd.AllocMW()
		_, err5 := pd.CreateSRQ(4, 1)
		if err := errors.Join(err1, err2, err3, err4, err5, d.Close()); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("a second time: %v", err)
		}
		if _, err := d.CreateCQ(10); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if c.Allocator().Available() != free {
			t.Errorf("free memory: %d, before %d", c.Allocator().Available(), free)
		}
	}
	m.Put(regs.IdentBase+regs.IdentCapabilitiesOffset, 7)
	if _, err := driver.Open(c, driver.Config{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a card without queue pairs: %v", err)
	}
	m.Put(regs.IdentBase+regs.IdentCapabilitiesOffset, ^uint32(0))
	d, err := driver.Open(c, driver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.CreateCQ(10)
	if err != nil {
		t.Fatal(err)
	}
	m.R32(3) // not aligned: no access works from here on
	if err := cq.Wait(context.Background(), false); err == nil || c.Err() == nil {
		t.Error("Wait on a card that has failed")
	}
	if _, err := d.AllocPD(); err == nil {
		if _, err = d.CreateCQ(3); err == nil {
			t.Error("a queue on a card that has failed")
		}
	}
	_ = d.Close() // it reports the failure too
}
