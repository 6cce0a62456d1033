// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// silentSource returns a queue pair to the destination f with a WRITE answered after 100 µs.
func silentSource(t testing.TB, f *Flight, change func(*verbs.Attr)) *source {
	x := newSource(t, verbs.RC, func(_ *Config, a *verbs.Attr) { change(a) })
	x.q.SetFlight(f)
	x.post(verbs.OpWrite, 1, 0)
	x.wantSent("0A")
	x.now += 100_000
	x.ack(0)
	return x
}

// Probes of a silent destination neither use up retries nor prolong them: a peer that is gone ends the connection
// at RetryBound, whatever Timeout is.
func TestSilenceKeepsRetryBound(t *testing.T) {
	for timeout := uint8(8); timeout <= 19; timeout++ {
		for _, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead} {
			f := NewFlight()
			x := silentSource(t, &f, func(a *verbs.Attr) { a.Timeout = timeout })
			x.post(op, 8, 0)
			start, packets := x.now, 0
			for x.q.State() == verbs.StateRTS {
				packets += len(x.sends(100))
				x.expire()
			}
			x.wantDone(0, verbs.StatusSuccess, verbs.StatusRetryExceeded)
			got, bound := x.now-start, RetryBound(timeout, 3)
			if got != bound {
				t.Errorf("Timeout %d, operation %d: given up after %d ns, bound %d", timeout, op, got, bound)
			}
			if most := 20 + bound/silenceProbeTime; packets > int(most) {
				t.Errorf("Timeout %d, operation %d: %d packets to a peer that is silent, want %d at most", timeout, op, packets, most)
			}
			if least := (min(bound, 3_200_000_000) - silenceTime) / (silenceProbeTime + maxBackoffShift*silenceProbeOrder); packets < int(least) {
				t.Errorf("Timeout %d, operation %d: %d packets, want %d at least", timeout, op, packets, least)
			}
		}
	}
}

// Without a timeout the probes of a peer that is gone become rare.
func TestSilenceWithoutTimeout(t *testing.T) {
	f := NewFlight()
	x := silentSource(t, &f, func(a *verbs.Attr) { a.Timeout = 0 })
	x.post(verbs.OpWrite, 1, 0)
	for range 300 {
		x.sends(10)
		x.expire()
	}
	x.wantState(verbs.StateRTS)
	if x.now < 1000e9 {
		t.Errorf("300 probes in %d s", x.now/1e9)
	}
}

// A destination whose queue pairs post at any time, with any timeouts, is silent from some time on. After 200 ms and
// two RTTs it gets one packet in 100 ms that was sent before, of most queue pairs, and with the first response
// all continue within milliseconds.
func TestSilenceOfManyQueuePairs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := NewFlight()
		var all []*source
		for range rapid.IntRange(1, 12).Draw(rt, "queue pairs") {
			timeout := rapid.SampledFrom([]uint8{0, 14, 15, 16, 17}).Draw(rt, "Timeout")
			x := silentSource(t, &f, func(a *verbs.Attr) { a.Timeout, a.RetryCnt = timeout, 7 })
			all = append(all, x)
		}
		now := all[0].now
		post := func(x *source) {
			x.now = now
			x.post(rapid.SampledFrom([]verbs.Op{verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd}).Draw(rt, "operation"), 8, 0)
			x.sends(100)
		}
		for _, x := range all {
			post(x)
		}
		start, last, resent := now, Time(0), map[*source]int{}
		outage := start + 1_500_000_000
		step := func(end Time) bool { // the next deadline of all
			var x *source
			for _, y := range all {
				if d := y.q.Deadline(); d != 0 && (x == nil || d < x.q.Deadline()) {
					x = y
				}
			}
			if x == nil || x.q.Deadline() > end {
				return false
			}
			now = max(now, x.q.Deadline())
			x.now = now
			x.q.Expire(now)
			for _, p := range x.sends(100) {
				if !p.Again || now < start+silenceTime+2*initialProbeTimeout || now >= outage {
					continue
				}
				if last != 0 && now-last < silenceProbeTime {
					rt.Fatalf("packets sent again %d ns apart, %d ms after the begin", now-last, (now-start)/1e6)
				}
				last = now
				resent[x]++
			}
			return true
		}
		for step(outage - 1) {
			if rapid.IntRange(0, 50).Draw(rt, "post") == 0 {
				post(all[rapid.IntRange(0, len(all)-1).Draw(rt, "who")])
			}
		}
		if n := len(resent); n < min(len(all), 10)-2 { // short timeouts and new requests take some of the 13 turns
			rt.Fatalf("%d of %d queue pairs have probed", n, len(all))
		}

		// One of them gets a response: what it has posted first was executed.
		now = outage
		all[0].now = now
		switch first := all[0].q.req.at(all[0].q.req.head); first.op {
		case verbs.OpRead:
			all[0].response(1, 0, 1, 8)
		case verbs.OpFetchAdd:
			all[0].atomic(1, 7)
		default:
			all[0].ack(1)
		}
		if !f.SilenceEnded() || f.SilenceEnded() {
			rt.Fatal("the end of the silence is not reported once")
		}
		waits := map[*source]bool{}
		for _, x := range all[1:] {
			x.q.Resume(now)
			waits[x] = true
		}
		for end := now + 100_000_000; len(waits) > 0; {
			before := map[*source]uint64{}
			for x := range waits {
				before[x] = x.count.SentAgain
			}
			if !step(end) {
				rt.Fatalf("%d queue pairs have sent nothing 100 ms after the first response", len(waits))
			}
			for x := range waits {
				if x.count.SentAgain != before[x] {
					delete(waits, x)
				}
			}
		}
	})
}

// As soon as the link has come up there are probes, every 20 ms for 100 ms, whether the silence was noticed before or not.
func TestSilenceAfterLinkUp(t *testing.T) {
	for _, outage := range []Time{150_000_000, 900_000_000} {
		f := NewFlight()
		x := silentSource(t, &f, func(a *verbs.Attr) { a.Timeout = 16 })
		x.post(verbs.OpWrite, 1, 0)
		x.wantSent("1A")
		up := x.now + outage
		for x.q.Deadline() < up {
			x.expire()
			x.sends(1)
		}
		x.now = up
		f.LinkUp(up)
		x.q.Resume(up)
		var at []Time // ms
		for x.now < up+300_000_000 {
			x.expire()
			if len(x.sends(10)) > 0 {
				at = append(at, (x.now-up)/10_000_000*10)
			}
		}
		if want := []Time{0, 20, 40, 60, 80, 100, 200, 300}; !slices.Equal(at, want) {
			t.Errorf("outage of %d ns: probes %v ms after the link came up, want %v", outage, at, want)
		}
	}
}

// While any queue pair gets responses, RNR NAKs among them, the destination is not silent: the other ones send
// as often as without this rule.
func TestNoSilenceWithResponses(t *testing.T) {
	f := NewFlight()
	busy, lost := silentSource(t, &f, func(a *verbs.Attr) { a.RNRRetry = 7 }), silentSource(t, &f, func(a *verbs.Attr) { a.Timeout = 0 })
	for _, x := range []*source{busy, lost} {
		x.post(verbs.OpSend, 1, 0)
		x.sends(1)
	}
	for range 100 {
		busy.now += 50_000_000
		busy.rnr(1, 1)
		busy.now += 1_000_000 // longer than the RNR NAK says
		busy.q.Expire(busy.now)
		busy.sends(10)
		lost.now = busy.now
		lost.q.Expire(lost.now)
		lost.sends(10)
		if f.silence.since != 0 || f.SilenceEnded() {
			t.Fatal("the destination counts as silent")
		}
	}
}
