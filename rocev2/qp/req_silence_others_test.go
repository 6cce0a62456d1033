// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A queue pair that cannot send the packet that asks for an ACK has a deadline now and then, also when a response has
// been due for long.
func TestDeadlineWithoutRoom(t *testing.T) {
	for _, timeout := range []uint8{0, 14, 16} {
		f := NewFlight()
		x := newSource(t, verbs.RC, func(c *Config, a *verbs.Attr) { c.AckPackets, a.Timeout = 64, timeout })
		x.q.SetFlight(&f)
		for range 4 {
			x.post(verbs.OpWrite, 1, 0)
		}
		x.sends(1) // then there is no room
		n := 0
		for end := x.now + 1_000_000_000; n < 10_000; n++ {
			at := x.q.Deadline()
			if at == 0 || at > end || x.q.State() != verbs.StateRTS {
				break
			}
			x.now = max(x.now, at)
			x.q.Expire(x.now)
		}
		if n > 2000 {
			t.Errorf("Timeout %d: %d deadlines or more in a second", timeout, n)
		}
	}
}

// The peer has lost a queue pair. Its destination is not silent: another queue pair has a response now and then.
func TestLostQueuePairIsNoSilence(t *testing.T) {
	f := NewFlight()
	dead := silentSource(t, &f, func(a *verbs.Attr) { a.Timeout = 0 })
	other := silentSource(t, &f, func(a *verbs.Attr) { a.Timeout = 0 })
	dead.post(verbs.OpWrite, 1, 0)
	dead.sends(10)
	other.now = dead.now + 1000
	for n := range 40 {
		other.post(verbs.OpWrite, 1, 0)
		other.sends(10)
		other.now += 100_000
		other.ack(n + 1)
		for end := other.now + 250_000_000; dead.q.Deadline() < end; {
			dead.now = max(dead.now, dead.q.Deadline())
			dead.q.Expire(dead.now)
			dead.sends(10)
			if f.silence.since != 0 {
				t.Fatalf("%d: silent since %d at %d, the last response was at %d", n, f.silence.since, dead.now, f.silence.responseAt)
			}
		}
		other.now += 250_000_000
	}
}

// The queue pairs that have sent probes are gone. One that comes ten minutes later does not wait for their turn.
func TestSilenceOfOthersIsOver(t *testing.T) {
	f := NewFlight()
	gone := silentSource(t, &f, func(a *verbs.Attr) { a.Timeout = 14 })
	gone.post(verbs.OpWrite, 1, 0)
	for gone.q.State() == verbs.StateRTS {
		gone.sends(10)
		gone.expire()
	}
	if f.silence.since == 0 {
		t.Fatal("there was no silence")
	}
	x := newSource(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Timeout = 0 })
	x.now = gone.now + 600_000_000_000
	x.q.SetFlight(&f)
	x.post(verbs.OpWrite, 1, 0)
	start, again := x.now, 0
	for x.now < start+1_000_000_000 {
		again += len(x.sends(10))
		x.expire()
	}
	if again < 8 {
		t.Errorf("%d packets in the first second", again)
	}
}

// A packet that may be forged ends a silence only if it acknowledges something.
func TestForgedResponseEndsNoSilence(t *testing.T) {
	f := NewFlight()
	x := silentSource(t, &f, func(a *verbs.Attr) { a.Timeout = 0 })
	x.post(verbs.OpWrite, 1, 0)
	for range 20 {
		x.sends(10)
		x.expire()
	}
	since := f.silence.since
	if since == 0 {
		t.Fatal("there was no silence")
	}
	ack := func(n int) {
		exactly(t, x.q, x.now, rocev2.Datagram{Opcode: rocev2.RCAck, PSN: psn(n), Syndrome: noCredits, MSN: noMSN})
	}
	ack(0) // of what was acknowledged before
	if f.silence.since != since || f.SilenceEnded() {
		t.Error("an ACK of nothing has ended it")
	}
	ack(1)
	if f.silence.since != 0 || !f.SilenceEnded() {
		t.Error("an ACK has not ended it")
	}
}
