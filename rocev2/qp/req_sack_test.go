// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The peer knows this engine's capabilities before the reverse: its SACK counts, since it
// will not send a NAK.
func TestSACKBeforeNegotiation(t *testing.T) {
	x := newSource(t, verbs.RC)
	for range 4 {
		x.post(verbs.OpWrite, 1, 0)
	}
	x.wantSent("0A 1A 2A 3A")
	x.sack(0, 2, 3)
	x.wantSent("1A!")
	x.ack(3)
	x.wantDone(0, slices.Repeat([]verbs.Status{verbs.StatusSuccess}, 4)...)
	if x.count.StaleAnswer != 0 || x.count.SACKReceived != 1 {
		t.Errorf("%+v", x.count)
	}
}

// Only packets that a SACK shows as missing are sent again, once. They are sent again when
// packets sent after the retransmission have arrived.
func TestSelective(t *testing.T) {
	x := newSource(t, verbs.RC, selective)
	for range 12 {
		x.post(verbs.OpWrite, 1, 0)
	}
	x.wantSent("0A 1A 2A 3A 4A 5A 6A 7A 8A 9A 10A 11A")
	x.sack(1, 3) // 2 may only be late
	x.wantSent("")
	x.sack(1, 3, 4, 5)
	x.wantSent("2A!")
	x.sack(1, 3, 4, 5, 7, 8, 9)
	x.wantSent("6A!")
	x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess)
	x.post(verbs.OpWrite, 1, 0)
	x.post(verbs.OpWrite, 1, 0)
	x.post(verbs.OpWrite, 1, 0)
	x.wantSent("12A 13A 14A")
	x.sack(1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13) // 11 is overtaken by two, 2 by 6, 12, 13
	x.wantSent("2A!")
	x.sack(1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14) // no later packet can reveal the loss of 11
	x.wantSent("11A!")
	x.sack(1, 3)        // old
	x.sack(13, 14, 100) // 100 was never sent
	x.wantSent("")
	x.ack(14)
	if got := len(x.cq.take()); got != 13 {
		t.Errorf("%d completions, want 13", got)
	}
	if x.count.SentAgain != 4 {
		t.Errorf("%d packets sent again, want 4", x.count.SentAgain)
	}
}

// The PSNs inside a READ are no packets and are not sent again.
func TestSelectiveRead(t *testing.T) {
	x := newSource(t, verbs.RC, selective)
	x.post(verbs.OpWrite, 1, 0)
	x.post(verbs.OpRead, 5*256, 0)
	for range 4 {
		x.post(verbs.OpWrite, 1, 0)
	}
	x.wantSent("0A 1A 6A 7A 8A 9A")
	x.sack(0, 6, 7, 8, 9)
	x.wantSent("1A!")
	x.response(1, 0, 5, 5*256)
	x.ack(9)
	x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess)
}

// With a gap no more packets are sent than the peer buffers, and packets that it dropped are
// sent again.
func TestSelectiveReach(t *testing.T) {
	x := newSource(t, verbs.RC, selective)
	x.q.req.window.size = maxWindow
	x.post(verbs.OpWrite, 200*256, 0)
	if got := len(x.sends(1000)); got != 200 {
		t.Fatalf("%d packets", got)
	}
	var there []int
	for i := 1; i < 128; i++ {
		there = append(there, i)
	}
	x.sack(-1, there...)
	x.wantSent("0A!")
	x.ack(127)
	if got := x.sends(1000); len(got) != 72 || got[0].PSN != psn(128) {
		t.Errorf("%d packets follow", len(got))
	}
}

// The peer has dropped packets that it had buffered, and the sender still takes them for delivered: behind the answer to a
// probe, nothing may leave. The timer runs nevertheless, and all of them arrive.
func TestStaleSACK(t *testing.T) {
	x := newSource(t, verbs.RC, selective)
	x.post(verbs.OpWrite, 1, 0)
	x.post(verbs.OpWrite, 20*256, 0)
	x.sends(1)
	x.q.req.requestAckNext() // in packet 1: no later one has requested an ACK
	x.sends(6)
	x.sack(0, 2)
	x.expire()
	if probe := x.sends(1); len(probe) != 1 || !probe[0].Again || probe[0].PSN.Diff(firstPSN) != 1 {
		t.Fatalf("the probe is %+v, want packet 1", probe)
	}
	x.ack(1) // without 2
	for n := 2; n < 21; {
		sent := x.sends(1)
		if len(sent) == 0 {
			if x.q.Deadline() == 0 {
				t.Fatalf("packet %d is waited for without a timer", n)
			}
			x.expire()
			continue
		}
		if sent[0].PSN.Diff(firstPSN) == n {
			x.ack(n)
			n++
		}
	}
	x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess)
}
