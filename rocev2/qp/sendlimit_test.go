// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// nextData is NextData and checks that SendLimit returned NotLimited exactly if there is
// a packet. Tests with pairs and sources use it for every packet.
func nextData(t testing.TB, q *QP, now Time, out *Outbound) bool {
	t.Helper()
	why := q.SendLimit(now)
	has := q.NextData(now, out)
	if has != (why == NotLimited) && q.state != verbs.StateErr && q.state != verbs.StateSQE { // a local operation failed
		t.Fatalf("SendLimit returned %q, NextData %v", why, has)
	}
	return has
}

// Each reason is reached, by packets and work requests where possible, and lifted.
func TestSendLimit(t *testing.T) {
	shared := func(x *source) *Flight {
		f := NewFlight()
		x.q.SetFlight(&f)
		return &f
	}
	local := func(w *verbs.SendWR) { w.SGL = nil }
	wide := func(x *source) { x.q.req.window.size = maxWindow }
	cases := []struct {
		want SendLimit
		do   func(x *source)
		lift func(x *source) // function after which the limit is NotLimited; nil: not tested
	}{
		{LimitState, func(x *source) { x.post(verbs.OpWrite, 1, 0); x.q.fail(x.now, 0) }, nil},
		{LimitNoWork, func(*source) {}, func(x *source) { x.post(verbs.OpWrite, 1, 0) }},
		{LimitNoWork, func(x *source) { x.post(verbs.OpWrite, 1, 0); x.sends(9) }, func(x *source) { x.post(verbs.OpWrite, 1, 0) }},
		{LimitRNR, func(x *source) { x.post(verbs.OpSend, 1, 0); x.sends(9); x.rnr(0, 1) },
			func(x *source) { x.now = x.q.Deadline() }},
		{LimitDraining, func(x *source) {
			x.q.Modify(verbs.Attr{State: verbs.StateSQD}, verbs.MaskState)
			x.post(verbs.OpWrite, 1, 0)
		}, func(x *source) { x.q.Modify(verbs.Attr{State: verbs.StateRTS}, verbs.MaskState) }},
		{LimitFence, func(x *source) { x.post(verbs.OpRead, 1, 0); x.post(verbs.OpWrite, 1, verbs.Fence); x.sends(9) },
			func(x *source) { x.response(0, 0, 1, 1) }},
		{LimitRdAtomic, func(x *source) { // MaxRdAtomic is 2
			for range 3 {
				x.post(verbs.OpRead, 1, 0)
			}
			x.sends(9)
		}, func(x *source) { x.response(0, 0, 1, 1) }},
		{LimitLocalInv, func(x *source) {
			x.post(verbs.OpWrite, 1, 0)
			x.post(verbs.OpLocalInv, 0, 0, local)
			x.post(verbs.OpWrite, 1, 0)
			x.sends(9)
		}, func(x *source) { x.ack(0) }},
		{LimitLossWindow, func(x *source) { x.post(verbs.OpWrite, 100*256, 0); x.sends(99) }, func(x *source) { x.ack(0) }},
		{LimitRNRSlowStart, func(x *source) {
			x.q.attr.Selective = true
			x.post(verbs.OpSend, 16*256, 0)
			x.sends(99)
			x.rnr(0, 1)
			x.expire()
			x.sends(99)
		}, func(x *source) { x.ack(0) }},
		{LimitSACKWindow, func(x *source) {
			wide(x)
			x.q.attr.Selective = true
			x.post(verbs.OpWrite, 130*256, 0)
			x.sends(9)
			x.sack(-1, 2)
			x.sends(999)
		}, func(x *source) { x.ack(2) }},
		{LimitReadWindow, func(x *source) {
			wide(x)
			for range 2 {
				x.post(verbs.OpRead, 1000*256, 0, func(w *verbs.SendWR) { w.SGL[0].Len = 1000 * 256 })
			}
			x.sends(9)
		}, nil},
		{LimitPSNRange, func(x *source) {
			x.post(verbs.OpRead, verbs.MaxOutstanding*256, 0)
			x.post(verbs.OpWrite, 1, 0)
			x.sends(9)
			x.q.req.window.size = verbs.MaxOutstanding + 1
		}, nil},
		{LimitHalted, func(x *source) {
			x.post(verbs.OpWrite, 1, 0)
			x.post(verbs.OpWrite, 1, 0, func(w *verbs.SendWR) { w.SGL[0].LKey = 0xbad })
			x.post(verbs.OpWrite, 1, 0)
			x.sends(9)
			x.q.req.rewind(1)
		}, nil},
		{LimitCredits, func(x *source) {
			for range 4 {
				x.post(verbs.OpSend, 1, 0)
			}
			x.sends(1)
			x.aeth(0, rocev2.SyndromeACK(1), 1) // one more receive
			x.sends(9)
		}, func(x *source) { x.aeth(1, rocev2.SyndromeACK(4), 2) }},
		{LimitInflight, func(x *source) { shared(x).packets = maxInflight; x.post(verbs.OpWrite, 1, 0) },
			func(x *source) { x.q.flight.packets = 0; x.q.flight.ServeNext() }},
		{LimitInflight, func(x *source) { shared(x).packets = maxInflight; x.post(verbs.OpRead, 1, 0) },
			func(x *source) { x.q.flight.packets = 0; x.q.flight.ServeNext() }},
		{LimitCongestionWindow, func(x *source) {
			shared(x).SetWindow(100)
			x.post(verbs.OpWrite, 512, 0)
			x.sends(9)
		}, func(x *source) { x.q.flight.SetWindow(0); x.q.flight.ServeNext() }},
		{LimitDestQueue, func(x *source) {
			f := shared(x)
			other := newSource(t, verbs.RC)
			other.q.SetFlight(f)
			f.enqueue(other.q, 1, 1)
			x.post(verbs.OpWrite, 1, 0)
		}, func(x *source) { x.q.flight.ServeNext().EndService(); x.q.flight.ServeNext() }},
	}
	reached := map[SendLimit]bool{NotLimited: true}
	for _, c := range cases {
		x := newSource(t, verbs.RC)
		x.m.regions[dataKey].rights |= verbs.AccessLocalWrite
		c.do(x)
		if got := x.q.SendLimit(x.now); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
			continue
		}
		reached[c.want] = true
		if nextData(t, x.q, x.now, &x.out) || c.lift == nil {
			continue
		}
		c.lift(x)
		if got := x.q.SendLimit(x.now); got != NotLimited {
			t.Errorf("%s: %q after it was lifted", c.want, got)
		}
		nextData(t, x.q, x.now, &x.out)
	}
	for l := range LimitFirstFlight { // from there on the limits are the engine's
		if !reached[l] {
			t.Errorf("no case reaches %q", l)
		}
	}
}

// Fence waits for the data of READs and ATOMICs, MaxRdAtomic for the oldest of them.
func TestFenceAndLimit(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpRead, 1, 0)
	x.post(verbs.OpWrite, 1, 0)
	x.post(verbs.OpWrite, 1, verbs.Fence)
	x.wantSent("0A 1A")
	x.response(0, 0, 1, 1)
	x.wantSent("2A")
	x.ack(2)
	x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess)

	for range 3 { // MaxRdAtomic is 2
		x.post(verbs.OpFetchAdd, 8, 0)
	}
	x.wantSent("3A 4A")
	x.atomic(4, 0) // the second alone does not make room: the peer counts in order
	x.wantSent("3A!")
	x.atomic(3, 0)
	x.wantSent("5A")
	x.wantDone(3, verbs.StatusSuccess, verbs.StatusSuccess)
}
