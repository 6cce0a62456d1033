// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// twoSources are two queue pairs of one destination whose window has room for four packets of 1 byte. The first one has
// sent these four, and the second one waits.
func twoSources(t *testing.T, timeout uint8) (f *Flight, first, second *source) {
	flight := NewFlight()
	f = &flight
	f.SetWindow(3*(1+frameOverhead) + 1)
	change := func(_ *Config, a *verbs.Attr) { a.Timeout, a.RNRRetry = timeout, 7 }
	first, second = newSource(t, verbs.RC, change), newSource(t, verbs.RC, change)
	for _, x := range []*source{first, second} {
		x.q.SetFlight(f)
		for range 4 {
			x.post(verbs.OpSend, 1, 0)
		}
	}
	first.wantSent("0A 1A 2A 3A")
	second.wantSent("")
	if !second.q.Waits() || second.q.Deadline() != 0 {
		t.Fatalf("the second one waits: %v, its deadline is %d", second.q.Waits(), second.q.Deadline())
	}
	return f, first, second
}

// wantServed checks that the queue pair is served, and sends.
func (x *source) wantServed(f *Flight, want string) {
	x.t.Helper()
	if f.ServeNext() != x.q {
		x.t.Fatalf("it is not served: %d packets and %d bytes are in flight", f.Used(), f.Bytes())
	}
	x.wantSent(want)
	x.q.EndService()
}

// wantInflight checks what is in flight.
func wantInflight(t *testing.T, f *Flight, packets int) {
	t.Helper()
	if f.Used() != packets || f.Bytes() != uint64(packets*(1+frameOverhead)) {
		t.Fatalf("%d packets and %d bytes are in flight, want %d packets", f.Used(), f.Bytes(), packets)
	}
}

// What an RNR NAK has refused is not in flight: the receiver may post the receive only after a message of another queue
// pair. What is sent again counts again, once.
func TestRefusedIsNotInFlight(t *testing.T) {
	f, x, other := twoSources(t, 14)
	x.rnr(1, 12)
	wantInflight(t, f, 0)
	other.wantServed(f, "0A 1A 2A 3A")
	other.ack(3)
	wantInflight(t, f, 0)
	x.expire()
	x.wantSent("1A!") // a retransmission needs no room
	wantInflight(t, f, 1)
	x.expire()
	x.wantSent("1A!") // the probe is the same packet
	wantInflight(t, f, 1)
	x.ack(1)
	x.wantSent("2A! 3A!")
	wantInflight(t, f, 2)
	x.rnr(3, 12)
	wantInflight(t, f, 0)
	x.ack(3) // it was sent before the NAK
	wantInflight(t, f, 0)
	x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess)
}

// The remote queue pair is gone: after the ACK timeout, and without one after the probe of a long silence, other queue
// pairs of the destination have its room.
func TestLostIsNotInFlight(t *testing.T) {
	for _, c := range []struct {
		timeout uint8
		late    int // packets in flight after a late response to the first two of four
	}{
		{14, 2}, // all were sent again: that was needless
		{0, 2},
	} {
		t.Run(fmt.Sprint(c.timeout), func(t *testing.T) {
			f, x, other := twoSources(t, c.timeout)
			for x.now < 1e9 && f.ServeNext() == nil {
				x.expire()
				x.sends(10)
			}
			if x.wantState(verbs.StateRTS); !other.q.InService() {
				t.Fatalf("after a second %d packets and %d bytes are in flight", f.Used(), f.Bytes())
			}
			wantInflight(t, f, 1) // the one that was sent again
			if x.now < 60e6 {
				t.Errorf("after %d ns, which a response may take", x.now)
			}
			other.wantSent("0A 1A 2A")
			other.q.EndService()
			other.ack(2)
			wantInflight(t, f, 1)
			x.ack(1)
			wantInflight(t, f, c.late)
			x.ack(3)
			wantInflight(t, f, 0)
		})
	}
}

// Without an ACK timeout, too, a new packet waits until those before it that are lost have been sent again.
func TestNewAfterLost(t *testing.T) {
	f := NewFlight()
	x := newSource(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Timeout = 0 })
	x.q.SetFlight(&f)
	for range 4 {
		x.post(verbs.OpSend, 1, 0)
	}
	for x.sends(10); x.now < 500e6; x.sends(10) {
		x.expire()
	}
	wantInflight(t, &f, 1)
	x.post(verbs.OpSend, 1, 0)
	x.wantSent("")
	wantInflight(t, &f, 1)
	x.ack(0)
	x.wantSent("1A! 2A!")
	wantInflight(t, &f, 2)
}

// A READ that is sent again counts as one packet, and its responses count from the first one on. So it is with the rest of
// a READ whose responses stop.
func TestLostReadIsNotInFlight(t *testing.T) {
	const packets = 40
	for _, timeout := range []uint8{14, 0} {
		for _, got := range []int{0, 10} {
			t.Run(fmt.Sprint(timeout, got), func(t *testing.T) {
				f := NewFlight()
				x := newSource(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Timeout = timeout })
				x.q.SetFlight(&f)
				want := func(n int) {
					t.Helper()
					if f.Used() != n {
						t.Fatalf("%d packets are in flight, want %d", f.Used(), n)
					}
				}
				x.post(verbs.OpRead, packets*256, 0)
				x.sends(10)
				want(packets)
				x.response(0, 0, got, packets*256)
				want(packets - got)
				for x.now < 500e6 && x.count.Timeouts == 0 {
					x.expire()
					x.sends(10)
				}
				want(1)
				x.response(0, got, got+1, packets*256)
				want(packets - got - 1)
				x.response(0, got+1, packets, packets*256)
				want(0)
				x.wantDone(0, verbs.StatusSuccess)
			})
		}
	}
}

// Whatever is refused and lost, the limiter has what its queue pairs have in flight, and all messages arrive.
func TestFlightRefusals(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(5, seed))
		n := 1 + r.IntN(6)
		c := newSharedDest(t, n)
		c.flight.SetWindow(uint64(1 + r.IntN(30_000)))
		const messages = 12
		for i, p := range c.pairs {
			for _, s := range p.side {
				s.q.attr.Selective = seed%2 != 0
			}
			if seed%3 != 0 {
				p.lossy(seed+uint64(i), 0.03)
			}
			for k := range messages {
				op := [...]verbs.Op{verbs.OpSend, verbs.OpSend, verbs.OpWrite, verbs.OpRead}[r.IntN(4)]
				p.post(&verbs.SendWR{ID: uint64(k), Op: op, Flags: verbs.Signaled, RemoteAddr: dataBase, RKey: dataKey,
					SGL: []verbs.SGE{{Addr: dataBase, Len: uint32(r.IntN(20_000)), LKey: dataKey}}})
			}
		}
		busy := func() bool {
			for _, p := range c.pairs {
				if len(p.side[0].cq.got) < messages {
					return true
				}
			}
			return false
		}
		refused := uint64(0)
		for step := 0; busy(); step++ {
			if !c.stepAll(r) || step > 300_000 {
				t.Fatalf("seed %d: nothing goes on", seed)
			}
			c.check(t)
			if p := c.pairs[r.IntN(n)]; r.IntN(100) == 0 {
				if err := p.side[1].q.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{{Addr: dataBase, Len: 20_000, LKey: dataKey}}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, p := range c.pairs {
			p.wantAll(messages)
			refused += p.side[0].count.RNRReceived
		}
		if f := &c.flight; refused == 0 || f.packets != 0 || f.bytes != 0 || f.Waiting() || f.longReads != 0 {
			t.Fatalf("seed %d: %d NAKs, left over %+v", seed, refused, *f)
		}
	}
}
