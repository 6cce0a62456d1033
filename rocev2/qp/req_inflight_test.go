// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// sharedDest is many pairs whose requesters send to one destination.
type sharedDest struct {
	flight    Flight
	pairs     []*pair
	mostBytes uint64 // the most bytes in flight at once
	checks    int
}

func newSharedDest(t *testing.T, n int, change ...func(*Config, *verbs.Attr)) *sharedDest {
	c := &sharedDest{flight: NewFlight()}
	for range n {
		p := newPair(t, verbs.RC, append(change, selective)...)
		p.side[0].q.SetFlight(&c.flight)
		c.pairs = append(c.pairs, p)
	}
	return c
}

// check compares the in-flight limiter with the sums over its queue pairs.
func (c *sharedDest) check(t *testing.T) {
	t.Helper()
	var sum uint32
	var waiting, turns int
	bytes := uint64(0)
	for _, p := range c.pairs {
		q := p.side[0].q
		sum += q.inflightPackets
		bytes += uint64(q.inflightBytes)
		if q.queued {
			waiting++
		}
		if q.InService() {
			turns++
		}
	}
	c.checks++
	q := c.pairs[c.checks%len(c.pairs)].side[0].q // one pair in each check, to save time
	if real := q.req.bytesBetween(q.req.sndUna, q.req.inflightEnd()); uint64(real) != uint64(q.inflightBytes) {
		t.Fatalf("a queue pair counts %d bytes in flight, it has %d", q.inflightBytes, real)
	}
	if real := q.req.inflightEnd() - q.req.oldestUnanswered(); q.flight != nil && uint64(q.inflightPackets) != real {
		t.Fatalf("a queue pair counts %d packets in flight, it has %d", q.inflightPackets, real)
	}
	line := 0
	for _, l := range []flightQueue{c.flight.short, c.flight.long} {
		for q := l.head; q != nil; q = q.next {
			line++
		}
	}
	if f := &c.flight; f.bytes != bytes || f.packets != sum || line != waiting || turns > 1 || f.serving != nil && turns == 0 {
		t.Fatalf("the limiter has %d bytes, %d packets, %d queued; its queue pairs have %d, %d, %d, and %d are being served", f.bytes, f.packets, line, bytes, sum, waiting, turns)
	}
}

// step lets a pair send as the engine would: the queue's head is served when there is room,
// for one step.
func (c *sharedDest) step(p *pair) {
	c.flight.ServeNext()
	p.step()
	p.side[0].q.EndService()
}

// stepAll advances all pairs to the next event of any of them. Each may send when it has
// been served, in random order. It returns false if there is no event.
func (c *sharedDest) stepAll(r *rand.Rand) bool {
	next := Time(0)
	served := c.flight.ServeNext()
	for _, i := range r.Perm(len(c.pairs)) {
		p := c.pairs[i]
		if at := p.sendBoth(); at != 0 && (next == 0 || at < next) {
			next = at
		}
		if served == p.side[0].q {
			served.EndService()
			served = c.flight.ServeNext()
		}
	}
	if served != nil {
		served.EndService()
		next = c.pairs[0].now + 1
	}
	for _, p := range c.pairs {
		if next != 0 {
			p.advance(next)
		}
	}
	return next != 0
}

// transfer sends n messages of size bytes on each pair. It returns the most packets in flight
// at once, and the messages of the slowest pair when the first pair was done.
func (c *sharedDest) transfer(t *testing.T, op verbs.Op, n int, size uint32) (most uint32, slowest int) {
	t.Helper()
	for _, p := range c.pairs {
		for i := range n {
			p.post(&verbs.SendWR{ID: uint64(i), Op: op, Flags: verbs.Signaled, RemoteAddr: dataBase, RKey: dataKey,
				SGL: []verbs.SGE{{Addr: dataBase, Len: size, LKey: dataKey}}})
		}
	}
	slowest = -1
	for busy := true; busy; {
		busy = false
		for _, p := range c.pairs {
			if len(p.side[0].cq.got) < n {
				busy = true
				c.step(p)
			} else if slowest < 0 {
				slowest = n
				for _, o := range c.pairs {
					slowest = min(slowest, len(o.side[0].cq.got))
				}
			}
			c.check(t)
			most, c.mostBytes = max(most, c.flight.packets), max(c.mostBytes, c.flight.bytes)
		}
	}
	for _, p := range c.pairs {
		p.wantAll(n)
	}
	return most, slowest
}

// All pairs together have no more packets in flight than a receiver has frames, whatever
// their windows are, and none starves.
func TestFlight(t *testing.T) {
	for _, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead} {
		for _, n := range []int{1, 16, 40} {
			t.Run(fmt.Sprintf("op%d/%d", op, n), func(t *testing.T) {
				const size, packets = 64 << 10, 256
				c := newSharedDest(t, n)
				most, slowest := c.transfer(t, op, 10, size)
				t.Logf("%d at the most; the slowest had done %d of 10 when the first was through", most, slowest)
				if limit := uint32(maxInflight + packets); most > limit {
					t.Errorf("%d packets in flight, want at most %d", most, limit)
				}
				if n > 1 && slowest < 5 {
					t.Errorf("when one had done 10 messages another had done %d", slowest)
				}
				if c.flight.packets != 0 || c.flight.Waiting() || c.flight.serving != nil {
					t.Errorf("left over: %+v", c.flight)
				}
			})
		}
	}
}

// A READ as long as the limit is requested while the responses of the last one still arrive,
// so that the link is never idle between them.
func TestFlightOfLongReads(t *testing.T) {
	c := newSharedDest(t, 1)
	most, _ := c.transfer(t, verbs.OpRead, 4, maxInflight*256)
	if most <= maxInflight || most > maxInflight*3/2 {
		t.Errorf("%d packets in flight at the most, want up to half a READ more than %d", most, maxInflight)
	}
}

// Losses decrease the limit, once a round trip for all queue pairs, and it increases again.
func TestFlightLoss(t *testing.T) {
	c := newSharedDest(t, 4)
	for i, p := range c.pairs {
		p.lossy(uint64(i), 0.02)
	}
	c.transfer(t, verbs.OpWrite, 20, 64<<10)
	if l := c.flight.limit; l == maxInflight || l < minInflight {
		t.Errorf("after losses the limit is %d", l)
	}
	for _, p := range c.pairs {
		p.drop = nil
		p.side[0].cq.got = nil
	}
	for range 10 {
		c.transfer(t, verbs.OpWrite, 20, 64<<10)
		for _, p := range c.pairs {
			p.side[0].cq.got = nil
		}
	}
	if l := c.flight.limit; l != maxInflight {
		t.Errorf("after a while without, the limit is still %d", l)
	}
}

// A queue pair that fails, is reset or detached leaves nothing in the limiter.
func TestFlightReleases(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for range 20 {
		c := newSharedDest(t, 6)
		c.flight.SetWindow(20_000)
		for _, p := range c.pairs {
			for i := range 8 {
				op := verbs.OpRead
				if i%2 != 0 {
					op = verbs.OpWrite
				}
				p.post(&verbs.SendWR{ID: uint64(i), Op: op, RemoteAddr: dataBase, RKey: dataKey, SGL: []verbs.SGE{{Addr: dataBase, Len: 100 << 10, LKey: dataKey}}})
			}
		}
		for range r.IntN(300) {
			c.step(c.pairs[r.IntN(6)])
		}
		for i, p := range c.pairs {
			q := p.side[0].q
			switch i % 3 {
			case 0:
				q.SetFlight(nil)
			case 1:
				_ = q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState)
			case 2:
				_ = q.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState)
			}
		}
		if f := &c.flight; f.packets != 0 || f.Waiting() || f.serving != nil || f.bytes != 0 {
			t.Fatalf("left over: %+v", *f)
		}
	}
}

// A queue pair that fails has no time of its own any more. The time of the last ACK of its
// destination stays: otherwise the others there would be taken for blocked in silence.
func TestFailedQueuePairKeepsAnsweredAt(t *testing.T) {
	f := NewFlight()
	q := New(Config{QPN: 1, Type: verbs.RC, Count: &Counters{}})
	q.state = verbs.StateRTS
	q.SetFlight(&f)
	q.req.start()
	q.req.sndMax, q.req.now = 3, 100
	q.updateInflight()
	f.answeredAt = 50
	q.fail(200, 0)
	if f.Used() != 0 || f.answeredAt < 50 {
		t.Errorf("%d packets in flight, last ACK at %d, want 0 and 50", f.Used(), f.answeredAt)
	}
}
