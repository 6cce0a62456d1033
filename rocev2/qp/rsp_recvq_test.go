// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A SEND is spread over the list of its receive, across empty elements.
func TestScatter(t *testing.T) {
	x := newTarget(t, verbs.RC)
	x.m.add(0x300, 0x5000, 100, verbs.AccessLocalWrite)
	data := pattern(4, 512+40)
	sgl := []verbs.SGE{{Addr: bufBase, Len: 100, LKey: bufKey}, {LKey: 0xBAD}, {Addr: 0x5000 + 60, Len: 40, LKey: 0x300}, {Addr: bufBase + 1000, Len: 500, LKey: bufKey}}
	if err := x.q.PostRecv(&verbs.RecvWR{ID: 5, SGL: sgl}); err != nil {
		t.Fatal(err)
	}
	clear(sgl) // PostRecv made a copy
	x.next(dg{Opcode: sf, Payload: data[:256]})
	x.next(dg{Opcode: sm, Payload: data[256:512]})
	x.next(dg{Opcode: sl, Payload: data[512:]})
	x.wantDone(verbs.Completion{WRID: 5, Op: verbs.OpRecv, Bytes: 552})
	buf := x.m.regions[bufKey].data
	if got := slices.Concat(buf[:100], x.m.regions[0x300].data[60:], buf[1000:1412]); string(got) != string(data) {
		t.Errorf("the parts hold %x, want %x", got, data)
	}
}

// A packet whose bytes fall into a bad element writes nothing into the good one.
func TestScatterChecksFirst(t *testing.T) {
	x := newTarget(t, verbs.RC)
	x.q.PostRecv(&verbs.RecvWR{ID: 5, SGL: []verbs.SGE{{Addr: bufBase, Len: 4, LKey: bufKey}, {Addr: bufBase, Len: 8, LKey: 0xBAD}}})
	x.next(send(so, 8))
	x.wantDone(verbs.Completion{WRID: 5, Op: verbs.OpRecv, Status: verbs.StatusLocalProtection, Solicited: true})
	if got := x.m.regions[bufKey].data[1]; got != 0 {
		t.Errorf("wrote %#x before the check", got)
	}
}

// Modify to ERR flushes in order, across growth and wrap of the ring; RESET discards.
func TestFlush(t *testing.T) {
	x := newTarget(t, verbs.RC)
	x.postRecv(0, 3, 64)
	x.next(send(so, 1))
	x.next(send(so, 1))
	x.postRecv(3, 10, 64)
	x.next(send(sf, 256-192)) // refused: also an error flushes
	got := x.cq.take()
	if len(got) != 13 {
		t.Fatalf("%d completions, want 13", len(got))
	}
	for i, c := range got {
		if c.WRID != uint64(i) || (c.Status == verbs.StatusWRFlushed) != (i >= 2) {
			t.Errorf("completion %d: %+v", i, c)
		}
	}

	x = newTarget(t, verbs.RC)
	x.postRecv(0, 2, 512)
	x.next(send(sf, 256))
	x.next(read(dataBase, 4)) // not answered because of Modify
	x = newTarget(t, verbs.RC)
	x.postRecv(0, 2, 512)
	x.next(read(dataBase, 4))
	x.next(send(sf, 256))
	if err := x.q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	x.wantOut()
	x.wantDone(verbs.Completion{WRID: 0, Status: verbs.StatusWRFlushed, Op: verbs.OpRecv, Solicited: true}, verbs.Completion{WRID: 1, Status: verbs.StatusWRFlushed, Op: verbs.OpRecv, Solicited: true})

	x = newTarget(t, verbs.RC)
	x.postRecv(0, 2, 512)
	x.next(read(dataBase, 4))
	x.next(send(sf, 256))
	if err := x.q.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	x.wantOut()
	x.wantDone()
	if x.q.Attr() != (verbs.Attr{}) || x.q.rsp.ring.n != 0 {
		t.Errorf("RESET left %+v and %d receives", x.q.Attr(), x.q.rsp.ring.n)
	}
}
