// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Silence: the oldest packet is sent again after two RTTs, then with growing intervals; these
// probes are no retries. After the timeout all packets are sent again, one packet first.
func TestSilence(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpWrite, 1, 0)
	x.wantSent("0A")
	x.now += 1_000_000
	x.ack(0) // RTT 1 ms; a response is expected within 2 RTTs and 4 deviations
	for range 4 {
		x.post(verbs.OpWrite, 1, 0)
	}
	x.wantSent("1A 2A 3A 4A")
	start := x.now
	for _, at := range []Time{4, 12, 28, 60} { // ms
		x.expire()
		if got := x.now - start; got != at*1e6 {
			t.Fatalf("probe after %d ns, want %d ms", got, at)
		}
		x.wantSent("1A!")
	}
	x.expire()
	if got := x.now - start; got != ackTimeout(14) {
		t.Fatalf("timeout after %d ns, want %d", got, ackTimeout(14))
	}
	x.wantSent("1A!")
	if x.count.Timeouts != 1 || x.count.TailProbes != 4 {
		t.Errorf("counters %+v", x.count)
	}
	x.now += 1e6
	x.ack(1) // as if all were lost
	x.wantSent("2A! 3A!")
	x.ack(2)
	x.ack(3)
	x.wantSent("4A!")
	x.ack(4)
	x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess)
	if x.q.Deadline() != 0 {
		t.Error("a deadline with nothing outstanding")
	}
}

// The response to a probe acknowledges all packets, and nothing is sent again. Or it
// acknowledges just the probe: then later packets are sent again until a response shows that
// they were only late.
func TestProbeAnswers(t *testing.T) {
	silent := func() *source {
		x := newSource(t, verbs.RC)
		x.post(verbs.OpWrite, 1, 0)
		x.wantSent("0A")
		x.now += 100_000
		x.ack(0)
		for range 8 {
			x.post(verbs.OpWrite, 1, 0)
		}
		x.wantSent("1A 2A 3A 4A 5A 6A 7A 8A")
		x.expire()
		x.wantSent("1A!")
		x.now += 100_000
		return x
	}
	x := silent()
	x.ack(8) // the ACK was lost
	x.wantSent("")

	x = silent()
	x.ack(1)
	x.wantSent("2A!")
	x.ack(5) // late
	x.wantSent("")
	x.post(verbs.OpWrite, 1, 0)
	x.wantSent("9A") // and the window is restored
	x.ack(9)

	x = silent()
	x.nak(3, rocev2.NAKPSNSequence)
	x.wantSent("3A! 4A! 5A! 6A!")
}

// A peer that disappears ends the connection within RetryBound, whatever was outstanding.
func TestRetryExceeded(t *testing.T) {
	for _, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd} {
		for retry := uint8(0); retry <= 7; retry++ {
			x := newSource(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.RetryCnt = retry })
			x.post(op, 8, 0)
			x.post(verbs.OpWrite, 1, 0)
			start := x.now
			for packets := 0; x.q.State() == verbs.StateRTS; {
				packets += len(x.sends(100))
				if packets > 30+10*int(retry) {
					t.Fatalf("%d packets to a peer that is silent", packets)
				}
				x.expire()
			}
			x.wantDone(0, verbs.StatusRetryExceeded, verbs.StatusWRFlushed)
			if got, bound := x.now-start, RetryBound(14, retry); got != bound || x.count.RetryExceeded != 1 {
				t.Errorf("operation %d, RetryCnt %d: given up after %d ns, bound %d", op, retry, got, bound)
			}
		}
	}
	// Timeout 0 never ends it (IBTA 9.7.6).
	x := newSource(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Timeout = 0 })
	x.post(verbs.OpWrite, 1, 0)
	for range 100 {
		x.sends(10)
		x.expire()
	}
	x.wantState(verbs.StateRTS)
	if x.now < 100e9 {
		t.Errorf("100 probes in %d s", x.now/1e9)
	}
	if RetryBound(0, 7) != 0 {
		t.Error("a bound for ever")
	}
	// 4.096 us * 2^14, once, twice, and four times for each further retry.
	if got := RetryBound(14, 3); got != 67_108_864*(1+2+4+4) {
		t.Errorf("RetryBound(14, 3) = %d", got)
	}
}

// A peer that restarts with other PSNs sends NAKs for packets never sent: the connection ends
// as after silence.
func TestPeerRestarts(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpWrite, 1, 0)
	start := x.now
	for x.q.State() == verbs.StateRTS {
		if len(x.sends(10)) != 0 {
			x.nak(0x345678, rocev2.NAKPSNSequence)
		}
		x.expire()
	}
	x.wantDone(0, verbs.StatusRetryExceeded)
	if x.now-start > RetryBound(14, 3) {
		t.Error("later than the bound")
	}
}

// Progress begins the retries again: each of two outages may take all of them.
func TestProgressStartsRetriesOver(t *testing.T) {
	x := newSource(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.RetryCnt = 1 })
	for n := range 2 {
		x.post(verbs.OpWrite, 1, 0)
		for x.count.Timeouts == uint64(n) {
			x.sends(10)
			x.expire()
		}
		x.wantState(verbs.StateRTS)
		x.sends(10)
		x.ack(n)
	}
	x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess)
}

// The timer runs for as long as a response is due, and no longer.
func TestTimerRunsUntilTheLastResponse(t *testing.T) {
	x := newSource(t, verbs.RC)
	for range 3 {
		x.post(verbs.OpWrite, 1, 0)
	}
	x.wantSent("0A 1A 2A")
	for n := range 3 {
		if x.q.Deadline() == 0 {
			t.Errorf("no deadline, and packet %d has no response", n)
		}
		x.now += 100_000
		x.ack(n)
	}
	if x.q.Deadline() != 0 {
		t.Error("a deadline with nothing outstanding")
	}
}

// A packet that was sent twice gives no RTT: its response may be that to either (Karn's algorithm).
func TestNoSampleOfRetransmission(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpWrite, 1, 0)
	x.wantSent("0A")
	x.expire()
	x.wantSent("0A!")
	x.now += 5
	x.ack(0)
	if got := x.q.req.rto.rtt; got != (rtt{}) {
		t.Errorf("%+v after the response to a retransmission", got)
	}
}
