// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"errors"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Two queue pairs take from one SRQ in the order in which their messages begin.
func TestSRQ(t *testing.T) {
	var events []verbs.EventType
	srq := NewSRQ(SRQConfig{PD: testPD, Max: 5, MaxSGE: 1, Notify: func(e verbs.EventType) { events = append(events, e) }})
	shared := func(c *Config, _ *verbs.Attr) { c.SRQ, c.PD = srq, testPD }
	x, y := newTarget(t, verbs.RC, shared), newTarget(t, verbs.RC, shared)
	post := func(id uint64) error {
		return srq.PostRecv(&verbs.RecvWR{ID: id, SGL: []verbs.SGE{{Addr: bufBase + id*512, Len: 512, LKey: bufKey}}})
	}
	for id := range uint64(5) {
		if err := post(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := post(5); err != verbs.ErrQueueFull {
		t.Errorf("a full SRQ says %v", err)
	}
	if err := srq.PostRecv(&verbs.RecvWR{SGL: make([]verbs.SGE, 2)}); !errors.Is(err, verbs.ErrSGL) {
		t.Errorf("a list too long: %v", err)
	}
	if err := x.q.PostRecv(&verbs.RecvWR{}); err != verbs.ErrSRQ {
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
	x.wantDone(verbs.Completion{WRID: 0, Op: verbs.OpRecv, Bytes: 263})
	y.wantDone(verbs.Completion{WRID: 1, Op: verbs.OpRecv, Bytes: 8}, verbs.Completion{WRID: 2, Op: verbs.OpRecv, Bytes: 9}, verbs.Completion{WRID: 3, Op: verbs.OpRecv, Bytes: 10})
	if len(events) != 1 || events[0] != verbs.EventSRQLimit {
		t.Errorf("events %v, want one EventSRQLimit", events)
	}

	// An error completes the receive in progress and leaves the others in the SRQ.
	x.next(send(sf, 256))
	x.events = nil
	x.next(send(sf, 256))
	x.wantDone(verbs.Completion{WRID: 4, Op: verbs.OpRecv, Status: verbs.StatusRemoteInvalidRequest, Solicited: true})
	x.wantEvents(verbs.EventQPLastWQE)
	if err := post(6); err != nil {
		t.Fatal(err)
	}
	y.next(send(so, 1))
	y.wantDone(verbs.Completion{WRID: 6, Op: verbs.OpRecv, Bytes: 1})
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
	x := newTarget(t, verbs.RC, func(c *Config, _ *verbs.Attr) { c.SRQ = srq })
	if err := srq.PostRecv(&verbs.RecvWR{ID: 1, SGL: []verbs.SGE{{Addr: bufBase, Len: 512, LKey: bufKey}}}); err != nil {
		t.Fatal(err)
	}
	x.next(send(so, 8))
	x.wantDone(verbs.Completion{WRID: 1, Op: verbs.OpRecv, Status: verbs.StatusLocalProtection, Solicited: true})
}

// A message that finds no receive asks for more, of the queue pair's own queue and of an SRQ, and uses them.
// Without any, it is refused as before.
func TestReceivesOnDemand(t *testing.T) {
	for _, shared := range []bool{false, true} {
		srq := NewSRQ(SRQConfig{PD: testPD, Max: 8, MaxSGE: 1})
		var x *target
		asked, waiting := 0, 0
		x = newTarget(t, verbs.UC, func(c *Config, _ *verbs.Attr) {
			if shared {
				c.SRQ = srq
			}
			c.Receives = func() {
				for asked++; waiting > 0; waiting-- {
					wr := &verbs.RecvWR{ID: uint64(waiting), SGL: []verbs.SGE{{Addr: bufBase, Len: 512, LKey: bufKey}}}
					post := x.q.PostRecv
					if shared {
						post = srq.PostRecv
					}
					if err := post(wr); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
		x.next(send(so|ucBit, 8))
		if asked != 1 || len(x.cq.take()) != 0 || x.count.NoBuffer != 1 {
			t.Errorf("shared %v: asked %d times, %d messages without a receive", shared, asked, x.count.NoBuffer)
		}
		waiting = 2
		x.next(send(so|ucBit, 8))
		x.next(send(so|ucBit, 9))
		if asked != 2 {
			t.Errorf("shared %v: asked %d times, want 2: one receive was left", shared, asked)
		}
		x.wantDone(verbs.Completion{WRID: 2, Op: verbs.OpRecv, Bytes: 8}, verbs.Completion{WRID: 1, Op: verbs.OpRecv, Bytes: 9})
	}
}
