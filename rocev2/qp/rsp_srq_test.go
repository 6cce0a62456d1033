// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"errors"
	"testing"
)

// Two queue pairs take from one SRQ in the order in which their messages begin.
func TestSRQ(t *testing.T) {
	var events []Event
	srq := NewSRQ(SRQConfig{PD: testPD, Max: 5, MaxSGE: 1, Notify: func(e Event) { events = append(events, e) }})
	shared := func(c *Config, _ *Attr) { c.SRQ, c.PD = srq, testPD }
	x, y := newTarget(t, RC, shared), newTarget(t, RC, shared)
	post := func(id uint64) error {
		return srq.PostRecv(&RecvWR{ID: id, SGL: []SGE{{Addr: bufBase + id*512, Len: 512, LKey: bufKey}}})
	}
	for id := range uint64(5) {
		if err := post(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := post(5); err != ErrRecvFull {
		t.Errorf("a full SRQ says %v", err)
	}
	if err := srq.PostRecv(&RecvWR{SGL: make([]SGE, 2)}); !errors.Is(err, ErrRecvSGL) {
		t.Errorf("a list too long: %v", err)
	}
	if err := x.q.PostRecv(&RecvWR{}); err != ErrRecvSRQ {
		t.Errorf("PostRecv on the queue pair: %v", err)
	}
	srq.SetLimit(3)
	x.next(send(sf, 256))
	y.next(send(so, 8))
	if len(events) != 0 || srq.Len() != 3 {
		t.Errorf("%d left, events %v, want 3 and none", srq.Len(), events)
	}
	y.next(send(so, 9))
	y.next(send(so, 10))
	x.next(send(sl, 7))
	x.wantDone(Completion{WRID: 0, Op: OpRecv, Bytes: 263})
	y.wantDone(Completion{WRID: 1, Op: OpRecv, Bytes: 8}, Completion{WRID: 2, Op: OpRecv, Bytes: 9}, Completion{WRID: 3, Op: OpRecv, Bytes: 10})
	if len(events) != 1 || events[0] != EventSRQLimit {
		t.Errorf("events %v, want one EventSRQLimit", events)
	}

	// An error completes the receive in progress and leaves the others in the SRQ.
	x.next(send(sf, 256))
	x.events = nil
	x.next(send(sf, 256))
	x.wantDone(Completion{WRID: 4, Op: OpRecv, Status: RemoteInvalidRequest, Solicited: true})
	x.wantEvents(EventLastWQE)
	if err := post(6); err != nil {
		t.Fatal(err)
	}
	y.next(send(so, 1))
	y.wantDone(Completion{WRID: 6, Op: OpRecv, Bytes: 1})
	s := send(so, 1)
	s.AckReq = true
	y.out()
	y.next(s)
	if got := y.out(); len(got) != 1 || got[0].Syndrome.String() != "RNR" {
		t.Errorf("an empty SRQ: %+v, want an RNR NAK", got)
	}
}

// The buffers of an SRQ are of its protection domain, not the queue pair's.
func TestSRQDomain(t *testing.T) {
	srq := NewSRQ(SRQConfig{PD: testPD + 1, Max: 1, MaxSGE: 1})
	x := newTarget(t, RC, func(c *Config, _ *Attr) { c.SRQ = srq })
	if err := srq.PostRecv(&RecvWR{ID: 1, SGL: []SGE{{Addr: bufBase, Len: 512, LKey: bufKey}}}); err != nil {
		t.Fatal(err)
	}
	x.next(send(so, 8))
	x.wantDone(Completion{WRID: 1, Op: OpRecv, Status: LocalProtection, Solicited: true})
}
