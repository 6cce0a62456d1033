// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// networks are what each operation is tested on.
var networks = map[string]card.Faults{
	"clean":    {},
	"loss":     {Loss: 0.1},
	"disorder": {Loss: 0.02, Duplicate: 0.1, Reorder: 0.2, ReorderBy: 20_000},
}

// onNetworks runs a test of RC on each network, with both families.
func onNetworks(t *testing.T, test func(w *world, a, b *endpoint)) {
	for name, faults := range networks {
		for family := range 2 {
			t.Run(fmt.Sprintf("%s/v%d", name, 4+2*family), func(t *testing.T) {
				w := newWorld(t, 7)
				w.net.Faults = faults
				a, b := w.connect(verbs.RC, family, rocev2.PMTU1024)
				test(w, a, b)
			})
		}
	}
}

// sizes are lengths of messages around packet borders.
var sizes = []int{0, 1, 7, 1023, 1024, 1025, 5000, 65536}

func TestWrite(t *testing.T) {
	onNetworks(t, func(_ *world, a, b *endpoint) {
		for i, n := range sizes {
			data := a.fill(3, n, uint64(i))
			before := b.read(0, 64)
			a.post(&verbs.SendWR{ID: uint64(i), Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(3, n)}, RemoteAddr: regionVA + 64, RKey: b.mr.RKey()})
			a.completes(verbs.Completion{WRID: uint64(i), Op: verbs.OpWrite})
			b.wants(64, data, "write")
			b.wants(0, before, "before the write")
		}
	})
}

func TestRead(t *testing.T) {
	onNetworks(t, func(_ *world, a, b *endpoint) {
		for i, n := range sizes {
			data := b.fill(100, n, uint64(i))
			cut := n / 3
			a.post(&verbs.SendWR{
				ID: uint64(i), Op: verbs.OpRead, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(70000, cut), a.sge(5, n-cut)},
				RemoteAddr: regionVA + 100, RKey: b.mr.RKey(),
			})
			a.completes(verbs.Completion{WRID: uint64(i), Op: verbs.OpRead, Bytes: uint32(n)})
			a.wants(70000, data[:cut], "first element")
			a.wants(5, data[cut:], "second element")
		}
	})
}

// SEND with each of its forms; data gathered from and scattered to several elements.
func TestSend(t *testing.T) {
	onNetworks(t, func(_ *world, a, b *endpoint) {
		for i, n := range sizes {
			data := a.fill(0, n, uint64(i))
			id := uint64(i)
			b.receive(id, b.sge(0, n/2), b.sge(70000, 50000))
			wr := verbs.SendWR{ID: 1000 + id, Op: verbs.OpSend, Flags: verbs.Signaled | verbs.Solicited, SGL: []verbs.SGE{a.sge(0, n/4), a.sge(n/4, n-n/4)}}
			want := verbs.Completion{WRID: id, Op: verbs.OpRecv, Bytes: uint32(n), Solicited: true}
			switch i % 3 {
			case 1:
				wr.Op, wr.Imm = verbs.OpSendImm, 0xdeadbeef
				want.HasImm, want.Imm = true, wr.Imm
			case 2:
				gone := b.register(driver.Spec{PD: b.pd.Number(), Access: allRights, Addr: 1 << 33, Len: 4096, VA: 8, Invalidatable: true})
				defer func() {
					if !gone.Invalid() {
						t.Error("the region is valid after SEND with invalidate")
					}
				}()
				wr.Op, wr.InvKey = verbs.OpSendInv, gone.RKey()
				want.HasInv, want.InvKey = true, gone.RKey()
			}
			a.post(&wr)
			a.completes(verbs.Completion{WRID: 1000 + id, Op: wr.Op})
			b.completes(want)
			b.wants(0, data[:n/2], "first element")
			b.wants(70000, data[n/2:], "second element")
		}
	})
}

func TestWriteImmAndInline(t *testing.T) {
	onNetworks(t, func(_ *world, a, b *endpoint) {
		for i, n := range []int{0, 1, 99, 100} {
			data := bytes.Repeat([]byte{byte(i + 1)}, n)
			b.receive(5)
			a.post(&verbs.SendWR{
				ID: 6, Op: verbs.OpWriteImm, Flags: verbs.Signaled | verbs.Inline, Data: data, Imm: uint32(i), RemoteAddr: regionVA + 9, RKey: b.mr.RKey(),
			})
			a.completes(verbs.Completion{WRID: 6, Op: verbs.OpWriteImm})
			b.completes(verbs.Completion{WRID: 5, Op: verbs.OpRecvWriteImm, Bytes: uint32(n), HasImm: true, Imm: uint32(i)})
			b.wants(9, data, "inline data")
		}
		if err := a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Inline, Data: make([]byte, 2000)}); !errors.Is(err, verbs.ErrInline) {
			t.Error(err)
		}
	})
}

func TestAtomics(t *testing.T) {
	onNetworks(t, func(_ *world, a, b *endpoint) {
		cell := func(e *endpoint) uint64 { return binary.NativeEndian.Uint64(e.read(8, 8)) }
		b.fill(8, 8, 1)
		old := cell(b)
		atomic := func(wr verbs.SendWR) uint64 {
			wr.Flags, wr.SGL, wr.RemoteAddr, wr.RKey = verbs.Signaled, []verbs.SGE{a.sge(8, 8)}, regionVA+8, b.mr.RKey()
			a.post(&wr)
			a.completes(verbs.Completion{Op: wr.Op, Bytes: 8})
			return cell(a)
		}
		if got := atomic(verbs.SendWR{Op: verbs.OpFetchAdd, Add: 5}); got != old || cell(b) != old+5 {
			t.Errorf("fetch and add: %#x, %#x, was %#x", got, cell(b), old)
		}
		if got := atomic(verbs.SendWR{Op: verbs.OpCompareSwap, Compare: old + 5, Swap: 42}); got != old+5 || cell(b) != 42 {
			t.Errorf("compare and swap: %#x, %#x", got, cell(b))
		}
		if got := atomic(verbs.SendWR{Op: verbs.OpCompareSwap, Compare: 41, Swap: 1}); got != 42 || cell(b) != 42 {
			t.Errorf("compare without swap: %#x, %#x", got, cell(b))
		}
	})
}

// window makes a window of the endpoint's domain.
func (e *endpoint) window() *driver.MW {
	e.w.t.Helper()
	win, err := e.pd.AllocMW()
	if err != nil {
		e.w.t.Fatal(err)
	}
	return win.(*driver.MW)
}

// A window is bound, used by the peer, invalidated, and then refuses.
func TestWindow(t *testing.T) {
	w := newWorld(t, 1)
	a, b := w.connect(verbs.RC, 0, rocev2.PMTU1024)
	win := b.window()
	key := win.RKey()
	if win.Bound() {
		t.Error("a new window is bound")
	}
	b.post(&verbs.SendWR{ID: 1, Op: verbs.OpBindWindow, Flags: verbs.Signaled, Bind: verbs.Bind{
		Window: key, Region: b.mr.LKey(), Addr: regionVA + 100, Length: 50, Access: verbs.AccessRemoteWrite, NewKey: uint8(key) + 1,
	}})
	b.completes(verbs.Completion{WRID: 1, Op: verbs.OpBindWindow})
	if want := key&^0xff | uint32(uint8(key)+1); win.RKey() != want || !win.Bound() {
		t.Fatalf("key %#x, want %#x; bound: %v", win.RKey(), want, win.Bound())
	}
	if err := b.mr.Deregister(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a region with a window: %v", err)
	}
	data := a.fill(0, 50, 1)
	write := verbs.SendWR{ID: 2, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 50)}, RemoteAddr: regionVA + 100, RKey: win.RKey()}
	a.post(&write)
	a.completes(verbs.Completion{WRID: 2, Op: verbs.OpWrite})
	b.wants(100, data, "window")
	b.post(&verbs.SendWR{ID: 3, Op: verbs.OpLocalInv, Flags: verbs.Signaled, InvKey: win.RKey()})
	b.completes(verbs.Completion{WRID: 3, Op: verbs.OpLocalInv})
	if win.Bound() {
		t.Error("the window is bound after its invalidation")
	}
	a.post(&write)
	a.completes(verbs.Completion{WRID: 2, Status: verbs.StatusRemoteAccess, Solicited: true})
	if err := errors.Join(win.Free(), b.mr.Deregister()); err != nil {
		t.Error(err)
	}
}

func TestUC(t *testing.T) {
	w := newWorld(t, 1)
	a, b := w.connect(verbs.UC, 1, rocev2.PMTU256)
	data := a.fill(0, 3000, 1)
	b.receive(1, b.sge(0, 3000))
	a.post(&verbs.SendWR{ID: 2, Op: verbs.OpSendImm, Flags: verbs.Signaled, Imm: 9, SGL: []verbs.SGE{a.sge(0, 3000)}})
	b.completes(verbs.Completion{WRID: 1, Op: verbs.OpRecv, Bytes: 3000, HasImm: true, Imm: 9})
	a.completes(verbs.Completion{WRID: 2, Op: verbs.OpSendImm})
	b.wants(0, data, "send")
	a.post(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 3000)}, RemoteAddr: regionVA + 5000, RKey: b.mr.RKey()})
	w.quiet()
	b.wants(5000, data, "write")
}

func TestUD(t *testing.T) {
	for family := range 2 {
		w := newWorld(t, 1)
		a, b := w.connect(verbs.UD, family, rocev2.PMTU4096)
		ah, err := a.pd.CreateAH(verbs.AddressVector{Src: a.addr[family], Dst: b.addr[family]})
		if err != nil {
			t.Fatal(err)
		}
		data := a.fill(0, 4096, 1)
		b.receive(1, b.sge(0, 5000))
		wr := verbs.SendWR{ID: 2, Op: verbs.OpSendImm, Flags: verbs.Signaled, Imm: 9, SGL: []verbs.SGE{a.sge(0, 4096)}, AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey}
		a.post(&wr)
		b.completes(verbs.Completion{WRID: 1, Op: verbs.OpRecv, Bytes: 4096 + verbs.GRHLen, HasImm: true, Imm: 9, HasGRH: true, IPv4: b.addr[family].Is4(), SrcQP: a.qp.QPN()})
		a.completes(verbs.Completion{WRID: 2, Op: verbs.OpSendImm})
		b.wants(verbs.GRHLen, data, "datagram")
		// Another Q_Key is dropped; a handle that is not valid, or is of another domain, is a bad WQE.
		b.receive(3, b.sge(0, 5000))
		wr.RemoteQKey++
		a.post(&wr)
		a.completes(verbs.Completion{WRID: 2, Op: verbs.OpSendImm})
		w.quiet()
		h := regs.AddressHandle(make([]byte, regs.AddressHandleBytes))
		at := int64(regs.QpOf(a.card, int(a.qp.QPN())).AhBase().AhAddress())
		if _, err := a.card.DDR().ReadAt(h, at); err != nil {
			t.Fatal(err)
		}
		if family == 0 {
			h.SetValid(false)
		} else { // as if the table were that of another domain
			h.SetAhPd(a.pd.Number() + 1)
		}
		if _, err := a.card.DDR().WriteAt(h, at); err != nil {
			t.Fatal(err)
		}
		a.post(&wr)
		a.completes(verbs.Completion{WRID: 2, Status: verbs.StatusLocalQPOperation, Solicited: true})
		if n := b.cq.Poll(make([]verbs.Completion, 1)); n != 0 {
			t.Error("a datagram with another Q_Key was taken")
		}
	}
}

// A window that a queue pair has bound ends with the queue pair.
func TestWindowOfDestroyedQueuePair(t *testing.T) {
	w := newWorld(t, 1)
	_, b := w.connect(verbs.RC, 0, rocev2.PMTU1024)
	win := b.window()
	b.post(&verbs.SendWR{ID: 1, Op: verbs.OpBindWindow, Flags: verbs.Signaled, Bind: verbs.Bind{
		Window: win.RKey(), Region: b.mr.LKey(), Addr: regionVA, Length: 50, Access: verbs.AccessRemoteRead, NewKey: 1,
	}})
	b.completes(verbs.Completion{WRID: 1, Op: verbs.OpBindWindow})
	if err := errors.Join(b.qp.Destroy(), b.mr.Deregister()); err != nil || win.Bound() {
		t.Errorf("%v, bound: %v", err, win.Bound())
	}
}

// Many messages keep a ring full; the ring and the indexes of the queue wrap.
func TestRingsWrap(t *testing.T) {
	w := newWorld(t, 1)
	a, b := w.connect(verbs.RC, 0, rocev2.PMTU256)
	const count = 70_000 // more than 2^16
	sent, done := 0, 0
	for done < count {
		for sent < count && sent-done < 200 {
			flags := verbs.Flags(0)
			if sent%8 == 7 || sent == count-1 {
				flags = verbs.Signaled
			}
			err := a.qp.PostSend(&verbs.SendWR{ID: uint64(sent), Op: verbs.OpWrite, Flags: flags, SGL: []verbs.SGE{a.sge(sent%64, 1)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
			if errors.Is(err, verbs.ErrQueueFull) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			sent++
		}
		c := a.poll(1)[0]
		want := uint64(min(done/8*8+7, count-1))
		if c.Status != verbs.StatusSuccess || c.WRID != want {
			t.Fatalf("%+v, want work request %d", c, want)
		}
		done = int(c.WRID) + 1
	}
}
