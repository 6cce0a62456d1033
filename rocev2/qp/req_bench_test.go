// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// nullMemory accepts every access and copies nothing, so that the benchmarks measure the
// state machine alone.
type nullMemory struct{ *testMemory }

// nullCQ counts completions.
type nullCQ struct{ n int }

func (c *nullCQ) Complete(verbs.Completion) { c.n++ }

// answers returns frames of ACKs, one for each of the first n packets.
func answers(t testing.TB, n, every int) []rocev2.Packet {
	all := make([]rocev2.Packet, n)
	for i := every - 1; i < n; i += every {
		all[i] = build(t, rocev2.Datagram{Opcode: rocev2.RCAck, PSN: psn(i), Syndrome: noCredits})
	}
	return all
}

// sendLoop returns a function that sends n packets, a power of two, in messages of per
// packets, and processes their ACKs. PSNs start over, as on a new connection, so that the
// ACKs can be built in advance.
func sendLoop(t testing.TB, n, per int) func() {
	cq := &nullCQ{}
	x := newSource(t, verbs.RC, func(c *Config, a *verbs.Attr) {
		a.PMTU = rocev2.PMTU1024
		c.SendCQ = cq
	})
	x.q.cfg.Memory = nullMemory{}
	flight := NewFlight()
	x.q.SetFlight(&flight)
	acks := answers(t, n, per)
	wr := x.wr(verbs.OpWrite, uint32(per)*1024, verbs.Signaled)
	now := Time(1000)
	return func() {
		r := &x.q.req
		r.sndUna, r.sndNxt, r.sndMax, r.rto = 0, 0, 0, rtoState{}
		for i := 0; i < n; i += per {
			now += 1000
			if err := x.q.PostSend(wr); err != nil {
				t.Fatal(err)
			}
			for range per {
				if !x.q.NextData(now, &x.out) {
					t.Fatal("nothing to send")
				}
			}
			x.q.Receive(now, &acks[i+per-1])
			if x.q.Deadline() < 0 {
				t.Fatal("deadline")
			}
		}
		if r.head != r.tail {
			t.Fatal("not all was acknowledged")
		}
	}
}

// BenchmarkSend measures the requester's cost of a data packet, with the shares of PostSend
// and the ACK.
func BenchmarkSend(b *testing.B) {
	for _, c := range []struct {
		name string
		per  int
	}{{"1packet", 1}, {"4packets", 4}, {"64packets", 64}} {
		b.Run(c.name, func(b *testing.B) {
			const n = 1024
			loop := sendLoop(b, n, c.per)
			b.ReportAllocs()
			for i := 0; i < b.N; i += n {
				loop()
			}
		})
	}
}

// Sending allocates nothing once the ring has its size.
func TestSendAllocates(t *testing.T) {
	for _, per := range []int{1, 4, 64} {
		loop := sendLoop(t, 256, per)
		loop()
		if n := testing.AllocsPerRun(10, loop); n != 0 {
			t.Errorf("%d packets a message: %v allocations for 256 packets", per, n)
		}
	}
}

// Loss and a READ with gaps do not allocate either.
func TestLossAllocates(t *testing.T) {
	for _, sel := range []bool{false, true} {
		x := newSource(t, verbs.RC, func(c *Config, a *verbs.Attr) { a.Selective, c.SendCQ = sel, &nullCQ{} })
		wr, rd := x.wr(verbs.OpWrite, 8*256, 0), x.wr(verbs.OpRead, 8*256, 0)
		first := 0
		frames := func() (f []rocev2.Packet) {
			add := func(d rocev2.Datagram) { f = append(f, build(t, d)) }
			if sel {
				add(rocev2.Datagram{Opcode: rocev2.OpSACK, PSN: psn(first + 1), Syndrome: noCredits, SACKLo: 0x3E})
			} else {
				add(rocev2.Datagram{Opcode: rocev2.RCAck, PSN: psn(first + 2), Syndrome: rocev2.SyndromeNAK(0)})
			}
			for _, i := range []int{0, 1, 3, 4, 5, 6, 7, 2} {
				add(rocev2.Datagram{Opcode: rocev2.RCReadResponseMiddle, PSN: psn(first + 8 + i), Payload: make([]byte, 256)})
			}
			return f
		}
		send := func() {
			for x.q.NextData(x.now, &x.out) {
			}
		}
		round := func(f []rocev2.Packet) {
			x.q.req.window.start() // as in a connection without loss
			if x.q.PostSend(wr) != nil || x.q.PostSend(rd) != nil {
				t.Fatal("not posted")
			}
			send()
			for i := range f {
				x.q.Receive(x.now, &f[i])
				send()
			}
			if x.q.req.head != x.q.req.tail {
				t.Fatalf("not done: selective %v", sel)
			}
		}
		rounds := make([][]rocev2.Packet, 20)
		for i := range rounds {
			rounds[i] = frames()
			first += 16
		}
		i := 0
		next := func() { round(rounds[i]); i++ }
		next()
		if n := testing.AllocsPerRun(10, next); n != 0 {
			t.Errorf("selective %v: %v allocations a round", sel, n)
		}
		if x.count.SentAgain == 0 {
			t.Error("nothing was sent again")
		}
	}
}
