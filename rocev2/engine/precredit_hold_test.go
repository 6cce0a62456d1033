// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A queue pair that is destroyed while it waits for a grant leaves the queue of its destination.
func TestHeldQueuePairIsDestroyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(t, 1)
		x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
		c := newCredits(l.e, PreCredit{Frames: 4096, LinkRate: 1e10})
		p := c.remember(x.dest.addr)
		p.dest, x.dest.credit = x.dest, p
		x.credit, x.hooked, l.e.hooks = &creditFlow{}, true, c
		x.credit.Data = x
		p.Connect(&x.credit.Flow)
		p.TurnOn()
		if c.awaitGrant(x); !x.credit.held {
			t.Fatal("there is pre-credit")
		}
		l.e.RemoveQP(x)
		if x.drr.Queued() {
			t.Fatal("the queue pair is still queued")
		}
		l.e.tx.transmit()
	})
}
