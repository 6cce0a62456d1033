// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// An engine numbers its accounts from where the one before it ended, whatever the clock says (S8).
func TestEpochsGoOn(t *testing.T) {
	var next atomic.Uint32
	last := uint32(0)
	for life := range 3 {
		c := newCredits(nil, PreCredit{Frames: 4096, FirstEpoch: FirstEpoch(&next, time.Now()), Epoch: &next})
		r := c.end.Receiver
		if first := r.Epoch(); life > 0 && first != last {
			t.Errorf("life %d begins with account %d, the one before ended before %d", life, first, last)
		}
		r.NewFlow(1, precredit.SenderID(1))
		r.NewFlow(1, precredit.SenderID(2))
		c.keepEpoch()
		last = r.Epoch()
		if next.Load() != last {
			t.Errorf("life %d: %d is stored, the next account is %d", life, next.Load(), last)
		}
	}
	early := time.Unix(1000, 0)
	if n := FirstEpoch(&next, early); n != last {
		t.Errorf("with the clock set back: %d, want %d", n, last)
	}
	if n := FirstEpoch(&next, time.Unix(4e9, 0)); n != last {
		t.Errorf("with the clock set ahead: %d, want %d", n, last)
	}
	if n := FirstEpoch(new(atomic.Uint32), early); n != 1000 {
		t.Errorf("the first engine: %d", n)
	}
	if n := FirstEpoch(nil, early); n != 1000 {
		t.Errorf("without memory: %d", n)
	}
}

// A peer that was attached again may number its accounts from an earlier number on: what it granted
// before is forgotten with its token.
func TestGrantOfRenewedPeer(t *testing.T) {
	e := bench(t)
	c := newCredits(e, PreCredit{Frames: 4096})
	e.hooks = c
	d := &dest{addr: peer, stamps: true}
	d.pacer, d.flight = newBucket(0), qp.NewFlight()
	p := c.remember(peer)
	p.dest, d.credit = d, p
	d.tokens.of(us)
	grant := func(epoch uint32) bool {
		_, send := p.Sender.Grant(int64(e.now), precredit.Grant{Epoch: epoch, Limit: 1000, Seq: 1, LifeNs: 1e9, Open: true})
		return send
	}
	reply := DestSync{Known: true, Stamps: true, Credit: true, Src: us, Token: 7}
	e.dests.applyEntry(d, &reply)
	if !p.Enabled() || !grant(1_700_000_000) || grant(1_600_000_000) {
		t.Fatal("grants of a later account are taken, and of an earlier one ignored")
	}
	e.dests.applyEntry(d, &reply)
	if grant(1_600_000_000) {
		t.Error("the same token: a grant of an earlier account was taken")
	}
	reply.Token = 8
	e.dests.applyEntry(d, &reply)
	if !p.Enabled() || !grant(1_600_000_000) {
		t.Error("another token: the grant was ignored")
	}
}
