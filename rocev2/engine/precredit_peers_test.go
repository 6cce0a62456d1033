// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/cc/precredit"
)

// A peer is forgotten a minute after its last queue pair has gone, once the receiver has no account of it. Others
// keep their numbers.
func TestPreCreditForgets(t *testing.T) {
	c := newCredits(nil, PreCredit{Frames: 4096, LinkRate: 10e9})
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	stays := c.remember(address(0))
	stays.dest = &dest{}
	const peers = 1000
	now := int64(1)
	for i := range peers {
		p := c.remember(address(i + 1))
		if i == 7 {
			c.end.Receiver.NewFlow(now, p.ID) // it was granted something
		}
		c.keepIdle(now, p)
		now++
	}
	c.forgetIdle(now)
	if len(c.end.Peers()) != peers+1 || c.forgetAt == 0 {
		t.Errorf("%d peers at once, want all %d; next look at %d", len(c.end.Peers()), peers+1, c.forgetAt)
	}
	now += creditKeep
	c.forgetIdle(now)
	if len(c.end.Peers()) != 2 || len(c.peers) != 2 || c.end.Peer(stays.ID) != stays.Peer || c.peers[address(8)] == nil {
		t.Errorf("%d and %d peers after a minute, want the one with queue pairs and the one with an account", len(c.end.Peers()), len(c.peers))
	}
	for at := c.end.Receiver.Deadline(); at != 0; at = c.end.Receiver.Deadline() {
		now = max(now, at)
		c.end.Receiver.Expire(now)
	}
	if now < c.forgetAt {
		now = c.forgetAt
	}
	c.forgetIdle(now)
	if len(c.end.Peers()) != 1 || c.forgetAt != 0 {
		t.Errorf("%d peers at the end, next look at %d", len(c.end.Peers()), c.forgetAt)
	}
	seen := map[precredit.SenderID]bool{stays.ID: true}
	c.nextID = ^precredit.SenderID(0) - 1 // the numbers begin again
	for i := range 4 {
		p := c.remember(address(i + 1))
		if seen[p.ID] || c.end.Peer(p.ID) != p.Peer {
			t.Errorf("number %d is another's", p.ID)
		}
		seen[p.ID] = true
	}
}
