// SPDX-License-Identifier: Apache-2.0

package precredit

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// world is a receiver and its senders over a network that loses, doubles, delays and
// reorders, but lets nothing live longer than DelayNs. It knows what nobody in it
// knows: what is in flight.
type world struct {
	t    *rapid.T
	p    Params
	r    *Receiver
	acc  []Account
	now  int64
	wire []packet
	// waiting are packets in the receiver's buffer.
	waiting []packet
}

type packet struct {
	from   SenderID
	diesNs int64
	kind   uint8
	n      uint32
	c      Credit
	grant  Grant
	ret    Return
}

const (
	pktData uint8 = iota
	pktAck
	pktGrant
	pktReturn
)

func newWorld(t *rapid.T) *world {
	buffer := rapid.Uint32Range(10, 400).Draw(t, "buffer")
	share := rapid.Uint32Range(1, buffer).Draw(t, "share")
	p := testParams(buffer, share, rapid.Uint32Range(1, share).Draw(t, "least"))
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return &world{
		t: t, p: p, acc: make([]Account, rapid.IntRange(1, 8).Draw(t, "senders")),
		r: NewReceiver(p, rapid.Uint32().Draw(t, "epoch")),
	}
}

func (w *world) put(p packet) {
	p.diesNs = w.now + w.p.DelayNs
	w.wire = append(w.wire, p)
}

// take removes packet i of the wire; a copy of one that is not data may stay.
func (w *world) take(i int) packet {
	p := w.wire[i]
	if p.kind == pktData || rapid.IntRange(0, 4).Draw(w.t, "copy") != 0 {
		w.wire = append(w.wire[:i], w.wire[i+1:]...)
	}
	return p
}

func (w *world) deliver(p packet) {
	a := &w.acc[p.from]
	switch p.kind {
	case pktData:
		w.r.Arrive(w.now, p.from, p.n, p.c)
		w.waiting = append(w.waiting, p)
	case pktAck:
		a.Credit(w.now, p.c)
	case pktGrant:
		if m, send := a.Grant(w.now, p.grant); send {
			w.put(packet{kind: pktReturn, from: p.from, ret: m})
		}
	case pktReturn:
		w.r.Return(w.now, p.from, p.ret)
	}
}

func (w *world) collect() {
	for {
		to, g, ok := w.r.Next(w.now)
		if !ok {
			return
		}
		w.put(packet{kind: pktGrant, from: to, grant: g})
	}
}

func (w *world) serve(i int) {
	p := w.waiting[i]
	w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
	if c, ok := w.r.DstScheduleCredit(w.now, p.from, p.n); ok {
		w.put(packet{kind: pktAck, from: p.from, c: c})
	}
}

func (w *world) expire() {
	w.r.Expire(w.now)
	for i := range w.acc {
		if d := w.acc[i].Deadline(); d != 0 && d <= w.now {
			if m, send := w.acc[i].Expire(w.now); send {
				w.put(packet{kind: pktReturn, from: SenderID(i), ret: m})
			}
		}
	}
}

// pass lets time go by, event by event where there are any.
func (w *world) pass(ns int64) {
	w.now += ns
	alive := w.wire[:0]
	for _, p := range w.wire {
		if p.diesNs > w.now {
			alive = append(alive, p)
		}
	}
	w.wire = alive
}

// check compares what the receiver counts with what there is.
func (w *world) check() {
	t := w.t
	var real uint64
	for i := range w.acc {
		real += uint64(w.acc[i].Usable(w.now))
	}
	for _, p := range w.wire {
		if p.kind == pktData {
			real += uint64(p.n)
		}
	}
	for _, p := range w.waiting {
		real += uint64(p.n)
	}
	if real > uint64(w.p.BufferBytes) {
		t.Fatalf("%d bytes unused, in flight or waiting; the budget is %d", real, w.p.BufferBytes)
	}
	if real > uint64(w.r.out) || w.r.out > w.p.BufferBytes {
		t.Fatalf("%d bytes unused, in flight or waiting; the receiver counts %d of %d", real, w.r.out, w.p.BufferBytes)
	}
	w.books()
}

// books: the receiver's sums agree with their parts, its heaps with their order.
func (w *world) books() {
	t := w.t
	var out, share uint64
	for id, p := range w.r.peers {
		if p.id != id || after(p.done+p.queued, p.seen) || after(p.seen+p.void, p.limit) || p.outstanding() > w.p.BufferBytes {
			t.Fatalf("account %+v", *p)
		}
		if (p.place == nowhere) != (p.share == 0) || p.place != nowhere && w.r.list[p.place] != p || w.r.timers[p.timer] != p {
			t.Fatalf("account %+v is not where it says", *p)
		}
		out += uint64(p.outstanding())
		share += uint64(p.share)
	}
	if out != uint64(w.r.out) || share+uint64(w.r.free) != uint64(w.p.BufferBytes) {
		t.Fatalf("outstanding %d, of the accounts %d; shares %d, free %d", w.r.out, out, share, w.r.free)
	}
	for i := range w.r.list {
		if i > 0 && w.r.list.Less(i, (i-1)/2) {
			t.Fatal("the list is out of order")
		}
	}
	if len(w.r.timers) != len(w.r.peers) {
		t.Fatal("an account without a timer")
	}
}

// TestPropertyConservation: over any network, what is unused at senders, in flight
// and waiting never exceeds the budget; and when all have fallen silent, all of it is
// free again.
func TestPropertyConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		sender := rapid.IntRange(0, len(w.acc)-1)
		for range 20 * rapid.IntRange(1, 10).Draw(t, "steps in 20s") {
			switch rapid.SampledFrom([]string{"flow", "data", "data", "data", "deliver", "deliver", "deliver", "deliver",
				"lose", "serve", "serve", "serve", "time", "long time", "leave", "give up", "restart"}).Draw(t, "do") {
			case "flow":
				w.r.NewFlow(w.now, SenderID(sender.Draw(t, "sender")))
			case "leave":
				w.r.Leave(SenderID(sender.Draw(t, "sender")))
			case "data":
				i := sender.Draw(t, "sender")
				n := rapid.Uint32Range(1, 40).Draw(t, "bytes")
				if c, ok := w.acc[i].Spend(w.now, n); ok {
					w.put(packet{kind: pktData, from: SenderID(i), n: n, c: c})
				}
			case "deliver":
				if len(w.wire) > 0 {
					w.deliver(w.take(rapid.IntRange(0, len(w.wire)-1).Draw(t, "packet")))
				}
			case "lose":
				if len(w.wire) > 0 {
					w.take(rapid.IntRange(0, len(w.wire)-1).Draw(t, "packet"))
				}
			case "serve":
				if len(w.waiting) > 0 {
					w.serve(rapid.IntRange(0, len(w.waiting)-1).Draw(t, "packet"))
				}
			case "time":
				w.pass(rapid.Int64Range(1, 2*ms).Draw(t, "ns"))
			case "long time":
				w.pass(rapid.Int64Range(1, 150*ms).Draw(t, "ns"))
			case "give up":
				i := sender.Draw(t, "sender")
				if m, send := w.acc[i].GiveUp(); send {
					w.put(packet{kind: pktReturn, from: SenderID(i), ret: m})
				}
			case "restart":
				// Not before the receiver knows that the account was opened: it
				// would open the same one once more. And it takes longer than a
				// grant lives.
				i := sender.Draw(t, "sender")
				if p := w.r.peers[SenderID(i)]; p == nil || p.known {
					w.acc[i] = Account{}
					w.wire = slices.DeleteFunc(w.wire, func(p packet) bool {
						return p.from == SenderID(i) && (p.kind == pktGrant || p.kind == pktAck)
					})
				}
			}
			if rapid.Bool().Draw(t, "timers") {
				w.expire()
			}
			w.collect()
			w.check()
		}
		// Everything ends: buffers are served, timers run out.
		for range 2000 {
			for len(w.waiting) > 0 {
				w.serve(0)
			}
			w.wire = nil // and what is in flight gets lost
			next := w.r.Deadline()
			if next == 0 {
				break
			}
			w.pass(max(0, next-w.now))
			w.expire()
			w.collect()
			w.check()
		}
		if w.r.out != 0 || len(w.r.peers) != 0 || w.r.free != w.p.BufferBytes {
			t.Fatalf("%d bytes and %d accounts left when all had gone", w.r.out, len(w.r.peers))
		}
	})
}

// TestPropertyShareComesBack: however much was lost, once the network works again a
// sender in the list gets its full share back.
func TestPropertyShareComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(w.acc)-1).Draw(t, "sender")
			w.r.NewFlow(w.now, SenderID(i))
			if c, ok := w.acc[i].Spend(w.now, 1); ok {
				w.put(packet{kind: pktData, from: SenderID(i), n: 1, c: c})
			}
			w.collect()
			for len(w.wire) > 0 {
				if p := w.take(0); rapid.Bool().Draw(t, "arrives") {
					w.deliver(p)
				}
			}
			for len(w.waiting) > 0 {
				w.serve(0)
			}
			w.pass(rapid.Int64Range(0, ms/2).Draw(t, "ns"))
			w.expire()
			w.check()
		}
		// Three delays without loss: retries, losses found, returns come in. Then
		// everybody in the list sends a packet, whose ACK makes it whole.
		works := func() {
			w.collect()
			for len(w.wire) > 0 {
				p := w.wire[0]
				w.wire = w.wire[1:]
				w.deliver(p)
				for len(w.waiting) > 0 {
					w.serve(0)
				}
				w.collect()
			}
		}
		for range 300 {
			works()
			w.pass(100 * us)
			w.expire()
		}
		works()
		for i := range w.acc {
			if m, send := w.acc[i].Report(); send { // the transport found a loss
				w.put(packet{kind: pktReturn, from: SenderID(i), ret: m})
			}
		}
		for range 300 {
			works()
			w.pass(100 * us)
			w.expire()
		}
		for i := range w.acc {
			if c, ok := w.acc[i].Spend(w.now, 1); ok {
				w.put(packet{kind: pktData, from: SenderID(i), n: 1, c: c})
			}
		}
		works()
		for i := range w.acc {
			if got, want := w.acc[i].Usable(w.now), w.r.Share(SenderID(i)); got != want {
				t.Fatalf("sender %d has %d, its share is %d", i, got, want)
			}
		}
	})
}
