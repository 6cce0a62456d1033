// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// All operations of RC move the right bytes and complete, over a network with faults.
func TestOperations(t *testing.T) {
	w := newLiveWorld(t, lossy, false)
	a, b := w.pair(func(i *verbs.QPInit) { i.MaxInline, i.MaxSendSGE, i.MaxRecvSGE = 64, 3, 3 })
	w.connect(a, b)
	const size = 100_000
	data := pattern(size)
	from, to := a.memory(data, allRights), b.memory(make([]byte, size), allRights)
	part := func(m verbs.DM, off, n int) []byte { return w.bytes(m)[off : off+n] }

	w.must(b.qp.PostRecv(&verbs.RecvWR{ID: 1, SGL: append(sge(to, 10, 5), sge(to, 100, 50_000)...)}))
	w.must(a.qp.PostSend(&verbs.SendWR{ID: 2, Op: verbs.OpSendImm, Imm: 77, Flags: verbs.Signaled, SGL: append(sge(from, 0, 30_000), sge(from, 50_001, 9_999)...)}))
	a.ends(2, verbs.StatusSuccess)
	if c := b.ends(1, verbs.StatusSuccess); c.Op != verbs.OpRecv || !c.HasImm || c.Imm != 77 || c.Bytes != 39_999 {
		t.Errorf("%+v", c)
	}
	sent := append(data[:30_000:30_000], data[50_001:60_000]...)
	if !bytes.Equal(append(part(to, 10, 5), part(to, 100, 39_994)...), sent) {
		t.Error("SEND: wrong bytes")
	}

	w.must(b.qp.PostRecv(&verbs.RecvWR{ID: 3}))
	w.must(a.qp.PostSend(&verbs.SendWR{
		ID: 4, Op: verbs.OpWriteImm, Imm: 5, Flags: verbs.Signaled | verbs.Solicited, SGL: sge(from, 1, 70_000), RemoteAddr: to.VA() + 3, RKey: to.RKey(),
	}))
	a.ends(4, verbs.StatusSuccess)
	if c := b.ends(3, verbs.StatusSuccess); c.Op != verbs.OpRecvWriteImm || c.Imm != 5 || !c.Solicited || !bytes.Equal(part(to, 3, 70_000), data[1:70_001]) {
		t.Errorf("WRITE: %+v", c)
	}

	w.must(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Inline, Data: []byte("inline"), RemoteAddr: to.VA(), RKey: to.RKey()}))
	w.must(a.qp.PostSend(&verbs.SendWR{ID: 5, Op: verbs.OpRead, Flags: verbs.Signaled, SGL: sge(from, 8, 60_000), RemoteAddr: to.VA(), RKey: to.RKey()}))
	c := a.ends(5, verbs.StatusSuccess)
	if c.Op != verbs.OpRead || c.Bytes != 60_000 || !bytes.Equal(part(from, 8, 60_000), part(to, 0, 60_000)) || string(part(from, 8, 6)) != "inline" {
		t.Errorf("READ: %+v", c)
	}

	word := func(m verbs.DM) uint64 { return binary.LittleEndian.Uint64(part(m, 0, 8)) }
	_, err := to.WriteAt(binary.LittleEndian.AppendUint64(nil, 40), 0)
	w.must(err)
	w.must(a.qp.PostSend(&verbs.SendWR{ID: 6, Op: verbs.OpFetchAdd, Flags: verbs.Signaled, Add: 2, SGL: sge(from, 0, 8), RemoteAddr: to.VA(), RKey: to.RKey()}))
	a.ends(6, verbs.StatusSuccess)
	if word(from) != 40 || word(to) != 42 {
		t.Errorf("fetch and add: %d, %d", word(from), word(to))
	}
	w.must(a.qp.PostSend(&verbs.SendWR{
		ID: 7, Op: verbs.OpCompareSwap, Flags: verbs.Signaled, Compare: 42, Swap: 99, SGL: sge(from, 0, 8), RemoteAddr: to.VA(), RKey: to.RKey(),
	}))
	a.ends(7, verbs.StatusSuccess)
	if word(from) != 42 || word(to) != 99 {
		t.Errorf("compare and swap: %d, %d", word(from), word(to))
	}
	if w.net.Lost == 0 {
		t.Error("no packet was lost")
	}
}

// A window opens part of a region to the peer until it is invalidated.
func TestWindowAccess(t *testing.T) {
	w := newLiveWorld(t, card.Faults{}, false)
	a, b := w.pair(rc)
	w.connect(a, b)
	from, to := a.memory([]byte{1, 2, 3, 4}, allRights), b.memory(make([]byte, 64), verbs.AccessLocalWrite|verbs.AccessBindWindows)
	if to.RKey() != 0 || from.RKey() == 0 {
		t.Errorf("rkeys %#x of a region without remote right, %#x", to.RKey(), from.RKey())
	}
	mw, err := b.pd.AllocMW()
	w.must(err)
	w.must(b.qp.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpBindWindow, Flags: verbs.Signaled, Bind: verbs.Bind{
		Window: mw.RKey(), Region: to.LKey(), Addr: to.VA() + 8, Length: 4, Access: verbs.AccessRemoteWrite, NewKey: 9,
	}}))
	b.ends(1, verbs.StatusSuccess)
	if mw.RKey()&0xff != 9 {
		t.Errorf("rkey %#x", mw.RKey())
	}
	if err := to.Deregister(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a region with a window: %v", err)
	}
	write := func(id uint64, at uint64, s verbs.Status) {
		t.Helper()
		w.must(a.qp.PostSend(&verbs.SendWR{ID: id, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: sge(from, 0, 4), RemoteAddr: at, RKey: mw.RKey()}))
		a.ends(id, s)
	}
	write(2, to.VA()+8, verbs.StatusSuccess)
	write(3, to.VA()+9, verbs.StatusRemoteAccess)
	if got := w.bytes(to); !bytes.Equal(got[8:12], []byte{1, 2, 3, 4}) || got[12] != 0 {
		t.Errorf("%x", got)
	}
	for e := (verbs.Event{}); e.Type != verbs.EventQPAccess; {
		if e = event(t, b); e.Type != verbs.EventQPEstablished && (e.Type != verbs.EventQPAccess || e.QP != b.qp) {
			t.Fatalf("%+v", e)
		}
	}
	w.must(mw.Free())
	w.must(to.Deregister())
	if err := to.Deregister(); !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("a second time: %v", err)
	}
}

// event waits for an event of the node's device.
func event(t *testing.T, n *node) verbs.Event {
	t.Helper()
	return testkit.Receive(t, "an event", n.dev.Events())
}

// Datagrams go to the peers of their address handles. A destroyed handle is refused.
func TestDatagrams(t *testing.T) {
	w := newLiveWorld(t, card.Faults{}, false)
	a, b := w.pair(func(i *verbs.QPInit) { i.Type = verbs.UD })
	w.connect(a, b)
	from, to := a.memory(pattern(1000), 0|verbs.AccessLocalWrite), b.memory(make([]byte, 2000), verbs.AccessLocalWrite)
	ah, err := a.pd.CreateAH(verbs.AddressVector{Dst: b.addr}) // the own address is the device's
	w.must(err)
	wr := verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled, SGL: sge(from, 0, 1000), AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey}
	for range 3 {
		w.must(b.qp.PostRecv(&verbs.RecvWR{ID: 2, SGL: sge(to, 0, 2000)}))
		w.must(a.qp.PostSend(&wr))
		a.ends(1, verbs.StatusSuccess)
		c := b.ends(2, verbs.StatusSuccess)
		if c.SrcQP != a.qp.QPN() || !c.HasGRH || c.Bytes != 1000+verbs.GRHLen || !bytes.Equal(w.bytes(to)[verbs.GRHLen:][:1000], pattern(1000)) {
			t.Errorf("%+v", c)
		}
	}
	if err := a.pd.Free(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a PD with a handle: %v", err)
	}
	w.must(ah.Destroy())
	if err := a.qp.PostSend(&wr); !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("a destroyed handle: %v", err)
	}
	wr.AH = nil
	if err := a.qp.PostSend(&wr); !errors.Is(err, verbs.ErrAH) {
		t.Errorf("no handle: %v", err)
	}
	if _, err := a.pd.CreateAH(verbs.AddressVector{Dst: a.addr.Next().Next().Next()}); err == nil {
		t.Error("a handle to nobody")
	}
}

// A shared receive queue gives its receives to several queue pairs, and reports its limit.
func TestSharedReceives(t *testing.T) {
	for _, polled := range []bool{false, true} {
		w := newLiveWorld(t, card.Faults{}, polled)
		a, b := w.pair(rc)
		srq, err := b.pd.CreateSRQ(8, 1)
		w.must(err)
		w.must(b.qp.Destroy())
		b.qp, err = b.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq})
		w.must(err)
		w.connect(a, b)
		to, err := verbs.NewMemory(b.pd, 64, verbs.AccessLocalWrite)
		w.must(err)
		w.must(srq.SetLimit(2))
		for id := range uint64(3) {
			w.must(srq.PostRecv(&verbs.RecvWR{ID: id, SGL: sge(to, 0, 8)}))
		}
		if err := b.qp.PostRecv(&verbs.RecvWR{}); !errors.Is(err, verbs.ErrSRQ) {
			t.Errorf("a receive of its own: %v", err)
		}
		for id := range uint64(2) {
			w.must(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}))
			b.ends(id, verbs.StatusSuccess)
		}
		for e := (verbs.Event{}); e.Type != verbs.EventSRQLimit; {
			if e = event(t, b); e.Type == verbs.EventSRQLimit && e.SRQ != srq {
				t.Errorf("%+v", e)
			}
		}
		if err := srq.Destroy(); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("with a queue pair: %v", err)
		}
		w.must(b.qp.Destroy())
		w.must(srq.Destroy())
		if err := srq.PostRecv(&verbs.RecvWR{}); !errors.Is(err, verbs.ErrDestroyed) {
			t.Errorf("destroyed: %v", err)
		}
	}
}
