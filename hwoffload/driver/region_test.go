// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Pages of a region lie anywhere in the DDR; the region is one range of virtual addresses.
func TestScatteredPages(t *testing.T) {
	w := newWorld(t, 1)
	a, b := w.connect(verbs.RC, 0, rocev2.PMTU1024)
	pages := []uint64{3<<32 | 0x5000, 1 << 12, 15<<28 - 0x1000, 2 << 32}
	const first = 0xff0
	length := uint64(len(pages)<<12 - first - 5)
	m := b.register(driver.Spec{PD: b.pd.Number(), Access: allRights, Pages: pages, PageShift: 12, First: first, Len: length, VA: 0x1000_0000 + first})
	data := a.fill(0, int(length), 1)
	a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, int(length))}, RemoteAddr: m.VA(), RKey: m.RKey()})
	a.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
	var got []byte
	for _, p := range pages {
		page := make([]byte, 4096)
		if _, err := b.card.DDR().ReadAt(page, int64(p)); err != nil {
			t.Fatal(err)
		}
		got = append(got, page...)
	}
	if string(got[first:first+length]) != string(data) || strings.Trim(string(got[:first])+string(got[first+length:]), "\x00") != "" {
		t.Error("the pages do not hold what was written")
	}
	a.post(&verbs.SendWR{ID: 2, Op: verbs.OpRead, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(70_000, int(length))}, RemoteAddr: m.VA(), RKey: m.RKey()})
	a.completes(verbs.Completion{WRID: 2, Op: verbs.OpRead, Bytes: uint32(length)})
	a.wants(70_000, data, "read")
}

// What the driver refuses, and what it leaves to the card.
func TestRegisterRefuses(t *testing.T) {
	s := newWorld(t, 1).side[0]
	for name, c := range map[string]struct {
		spec driver.Spec
		want error
		text string
	}{
		"no bytes":         {driver.Spec{}, verbs.ErrRange, "0 bytes"},
		"beyond the DDR":   {driver.Spec{Addr: 1<<34 - 4096, Len: 4097}, verbs.ErrRange, "4097 bytes at 0x3fffff000: the DDR has 0x400000000 bytes"},
		"page beyond":      {driver.Spec{Pages: []uint64{1 << 34}, PageShift: 12, Len: 1}, verbs.ErrRange, "page 0x400000000"},
		"page misaligned":  {driver.Spec{Pages: []uint64{8}, PageShift: 12, Len: 1}, verbs.ErrRange, "page 0x8"},
		"too few pages":    {driver.Spec{Pages: []uint64{0}, PageShift: 12, Len: 4097}, verbs.ErrRange, "do not take 1 pages"},
		"small pages":      {driver.Spec{Pages: []uint64{0}, PageShift: 11, Len: 1}, verbs.ErrRange, "pages of 2^11 bytes"},
		"domain":           {driver.Spec{PD: 1 << 24, Len: 1}, verbs.ErrPD, "a number has 24 bits"},
		"too many pages":   {driver.Spec{Pages: make([]uint64, regs.MttCount+1), PageShift: 12, Len: (regs.MttCount + 1) << 12}, nil, "no 65537 entries of the MTT in a row are free"},
		"rights":           {driver.Spec{Len: 8, Access: verbs.AccessRemoteWrite}, verbs.ErrAccess, "the card refused it"},
		"atomics unsound":  {driver.Spec{Len: 8, VA: 4, Access: allRights}, verbs.ErrAccess, "the card refused it"},
		"address wraps":    {driver.Spec{Len: 8, VA: ^uint64(0) - 3}, verbs.ErrAccess, "the card refused it"},
		"zero-based at VA": {driver.Spec{Len: 8, VA: 8, Access: verbs.AccessZeroBased}, verbs.ErrAccess, "the card refused it"},
	} {
		if c.spec.PD == 0 {
			c.spec.PD = 1
		}
		_, err := s.d.RegMR(c.spec)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v and %s", name, err, c.want, c.text)
		}
	}
	// Nothing was lost on the way: all elements and entries are there.
	for range 3 {
		var all []*driver.MR
		for range regs.MrCount {
			m, err := s.d.RegMR(driver.Spec{PD: 1, Len: 64 << 12, PageShift: 12, Addr: 0})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
		if _, err := s.d.RegMR(driver.Spec{PD: 1, Len: 1}); err == nil {
			t.Error("more regions than the card has")
		}
		for _, m := range all {
			if err := m.Deregister(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The card refuses registers that contradict each other, whatever the driver does.
func TestUsable(t *testing.T) {
	s := newWorld(t, 1).side[0]
	for name, change := range map[string]func(e regs.Mr){
		"correct":                   func(regs.Mr) {},
		"key of another element":    func(e regs.Mr) { e.SetKey(6<<16 | 0x1234) },
		"key without secret":        func(e regs.Mr) { e.SetKey(5 << 16) },
		"first byte behind a page":  func(e regs.Mr) { e.SetFirstByte(4096) },
		"small pages":               func(e regs.Mr) { e.SetPages(regs.MrPages(0).WithPageShift(11)) },
		"large pages":               func(e regs.Mr) { e.SetPages(regs.MrPages(0).WithPageShift(31)) },
		"no bytes":                  func(e regs.Mr) { e.SetLength(0) },
		"more than the DDR":         func(e regs.Mr) { e.SetLength(1<<34 + 1) },
		"all addresses":             func(e regs.Mr) { e.SetLength(^uint64(0)) },
		"MTT ends before":           func(e regs.Mr) { e.SetMttFirst(regs.MttCount - 1) },
		"MTT far beyond":            func(e regs.Mr) { e.SetMttFirst(^uint32(0)) },
		"page that is not aligned":  func(regs.Mr) { regs.MttOf(s.card, 1).SetPage(regs.MttPage(0).WithPageAddress(8)) },
		"distribution is not built": func(e regs.Mr) { e.SetControl(regs.MrControl(0).WithKind(1)) },
	} {
		e := regs.MrOf(s.card, 5)
		e.SetControl(0)
		e.SetKey(5<<16 | 0x1234)
		e.SetDomain(1)
		e.SetPages(12)
		e.SetVa(0)
		e.SetLength(8192)
		e.SetMttFirst(0)
		e.SetFirstByte(0)
		regs.MttOf(s.card, 1).SetPage(0)
		change(e)
		e.SetControl(e.Control().WithValid(true))
		good := name == "correct" || name == "key without secret" // element and zeros are a key
		if e.State().Usable() != good {
			t.Errorf("%s: usable is %v", name, e.State().Usable())
		}
		e.SetControl(0)
		if e.State().Usable() {
			t.Errorf("%s: usable without valid", name)
		}
	}
}

// Queue pairs of two domains take receives from one shared queue, whose limit is reported once.
func TestSharedReceiveQueue(t *testing.T) {
	w := newWorld(t, 1)
	b := w.side[1]
	pd, cq := b.newPD(), b.newCQ(64)
	made, err := pd.CreateSRQ(8, 2)
	if err != nil {
		t.Fatal(err)
	}
	srq := made.(*driver.SRQ)
	m, err := b.d.RegMR(driver.Spec{PD: pd.Number(), Access: verbs.AccessLocalWrite, Addr: 1 << 30, Len: 1 << 16, VA: 0})
	if err != nil {
		t.Fatal(err)
	}
	receive := func(i int) error {
		return srq.PostRecv(&verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{{Addr: uint64(i) * 1000, Len: 500, LKey: m.LKey()}, {Addr: uint64(i)*1000 + 500, Len: 500, LKey: m.LKey()}}})
	}
	for i := range 8 {
		if err := receive(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := srq.SetLimit(4); err != nil {
		t.Fatal(err)
	}
	var senders []*endpoint
	var takers []*driver.QP
	for range 2 {
		a := w.side[0].endpoint(verbs.RC)
		q := b.newQP(pd, verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq})
		regs.QpOf(b.card, int(q.QPN())).SetDomain(regs.QpDomain(0).WithQpPd(b.newPD().Number()))
		local := verbs.Endpoint{Addr: a.addr[0], QPN: a.qp.QPN()}
		remote := verbs.Endpoint{Addr: b.addr[0], QPN: q.QPN()}
		if err := errors.Join(verbs.Connect(a.qp, local, remote, verbs.DefaultAttr()), verbs.Connect(q, remote, local, verbs.DefaultAttr())); err != nil {
			t.Fatal(err)
		}
		senders, takers = append(senders, a), append(takers, q)
	}
	if err := takers[0].PostRecv(&verbs.RecvWR{}); !errors.Is(err, verbs.ErrSRQ) {
		t.Errorf("receive at a queue pair with a shared queue: %v", err)
	}
	for i := range 20 { // the ring wraps
		a := senders[i%2]
		data := a.fill(0, 900, uint64(i))
		a.post(&verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 900)}})
		a.completes(verbs.Completion{WRID: 1, Op: verbs.OpSend})
		var got [1]verbs.Completion
		if cq.Poll(got[:]) != 1 || got[0].Status != verbs.StatusSuccess || got[0].WRID != uint64(i%8) || got[0].QPN != takers[i%2].QPN() {
			t.Fatalf("message %d: %+v", i, got[0])
		}
		in := make([]byte, 900)
		if _, err := b.card.DDR().ReadAt(in, 1<<30+int64(i%8)*1000); err != nil || string(in) != string(data) {
			t.Fatalf("message %d: wrong data (%v)", i, err)
		}
		if reached := srq.Events().LimitReached(); reached != (i == 4) {
			t.Errorf("message %d: limit reached: %v", i, reached)
		}
		if i > 4 {
			if err := receive((i - 5) % 8); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := srq.Destroy(); err == nil {
		t.Error("a shared queue that queue pairs use was destroyed")
	}
	if err := errors.Join(takers[0].Destroy(), takers[1].Destroy(), srq.Destroy(), cq.Destroy()); err != nil {
		t.Error(err)
	}
}
