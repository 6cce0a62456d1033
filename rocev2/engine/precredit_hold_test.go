// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// heldQueuePair is one more queue pair that waits for a grant.
func heldQueuePair(t *testing.T, l *loopback, c *credits) *QP {
	t.Helper()
	x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
	p := c.peerOf(x.dest)
	p.dest, x.dest.credit = x.dest, p
	x.credit, x.hooked, l.e.hooks = &creditFlow{}, true, c
	x.credit.Data = x
	p.Connect(&x.credit.Flow)
	p.TurnOn()
	if c.awaitGrant(x); !x.credit.held {
		t.Fatal("there is pre-credit")
	}
	return x
}

// A queue pair that is destroyed while it waits for a grant leaves the queue of its destination.
func TestHeldQueuePairIsDestroyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(t, 1)
		c := newCredits(l.e, PreCredit{Frames: 4096, LinkRate: 1e10})
		x := heldQueuePair(t, l, c)
		l.e.RemoveQP(x)
		if x.drr.Queued() {
			t.Fatal("the queue pair is still queued")
		}
		l.e.tx.transmit()
	})
}

// A queue pair that connects in the iteration in which a hold ends does not make it longer, but waits for its whole hold.
func TestEndedHoldIsNotExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(t, 1)
		c := newCredits(l.e, PreCredit{Frames: 4096, LinkRate: 1e10})
		l.e.Begin(testNow())
		first := heldQueuePair(t, l, c)
		l.e.hooks = nil
		time.Sleep(CreditHold)
		l.e.Begin(testNow())
		second := heldQueuePair(t, l, c)
		if first.credit.held || !first.drr.Queued() {
			t.Errorf("the first one is held: %v, queued to send: %v", first.credit.held, first.drr.Queued())
		}
		time.Sleep(CreditHold - 1)
		l.e.Begin(testNow())
		if c.endHolds(); !second.credit.held {
			t.Error("the next hold ends before its time")
		}
	})
}

// Queue pairs that connect one after the other do not make the first one wait for longer, and a hold that begins after the
// end of another one has its whole length.
func TestHoldIsNotExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(t, 1)
		c := newCredits(l.e, PreCredit{Frames: 4096, LinkRate: 1e10})
		var first *QP
		for range 3 { // a connection each half of a hold
			l.e.Begin(testNow())
			l.e.hooks = nil
			if x := heldQueuePair(t, l, c); first == nil {
				first = x
			}
			time.Sleep(CreditHold / 2)
			l.e.Begin(testNow())
			c.endHolds()
			if !first.credit.held {
				break
			}
		}
		if first.credit.held || len(l.qps) != 2 {
			t.Fatalf("with %d queue pairs, the first one is held: %v", len(l.qps), first.credit.held)
		}
		l.e.hooks = nil
		x := heldQueuePair(t, l, c)
		time.Sleep(CreditHold - 1)
		l.e.Begin(testNow())
		if c.endHolds(); !x.credit.held {
			t.Error("the next hold ends before its time")
		}
	})
}
