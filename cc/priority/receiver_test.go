// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	recvTick = uint64(50 * time.Millisecond)
	recvLink = uint64(64e6) // so that the reserve of 1/64 is 1 Mbit/s
	recvMost = recvLink - recvLink>>reserveShift
)

// sends plays senders and their link on virtual time.
type sends struct {
	r       *Receiver
	now     uint64
	senders []*sends1
}

// sends1 is one sender. It sends what it wants, up to its limit.
type sends1 struct {
	key     Key
	want    uint64 // bit/s
	ignores bool   // the source does not obey
	exceeds bool   // the source sends 1/16 more than its limit
	backs   bool   // congestion control: its rate falls while there is a queue
	rate    uint64 // rate of congestion control
	limit   Limit
	got     Arrivals
}

// offers returns the rate at which the sender sends.
func (x *sends1) offers() uint64 {
	rate := min(x.want, recvLink)
	if x.backs {
		rate = min(rate, x.rate)
	}
	if x.limit.Bps == 0 || x.ignores {
		return rate
	}
	limit := x.limit.Bps
	if x.exceeds {
		limit += limit >> 4
	}
	return min(rate, limit)
}

// sees takes in whether there is a queue.
func (x *sends1) sees(queue bool) {
	if queue {
		x.rate = max(x.rate-x.rate>>3, 1e6)
	} else {
		x.rate = min(x.rate+x.rate/12, recvLink)
	}
}

func receive(nodes []Node) *sends {
	p := &sends{r: NewReceiver(), now: uint64(time.Hour)}
	for i, n := range nodes {
		key := Key{15: byte(i + 1)}
		p.r.Define(n, key)
		p.senders = append(p.senders, &sends1{key: key, want: n.Demand, rate: recvLink / 4})
	}
	return p
}

// ticks lets time pass: the link carries its rate, and what the senders send above it shrinks for
// all in proportion.
func (p *sends) ticks(n int) (s State) {
	for range n {
		var rates []uint64
		sum := uint64(0)
		for _, x := range p.senders {
			rate := x.offers()
			rates, sum = append(rates, rate), sum+rate
		}
		p.now += recvTick
		for i, x := range p.senders {
			rate := rates[i]
			if sum > recvLink {
				rate = rate * (recvLink >> 10) / (sum >> 10)
			}
			x.got.Bytes += rate / 8 / 20
			if rate > 0 {
				p.r.Note(x.key, &x.got, p.now)
			}
			x.limit = Limit{}
			x.sees(sum > recvLink)
		}
		s = p.r.Divide(recvLink, 1000, p.now)
		p.r.Limits(func(l Limit) { p.senders[l.Key[15]-1].limit = l })
	}
	return s
}

func (p *sends) limits() (all []uint64) {
	for _, x := range p.senders {
		all = append(all, x.limit.Bps)
	}
	return all
}

// Of nodes that all send as much as they can, each has its minimum, no node of a lower level has
// more than that before those above it have their maximum, and together they have the link.
func TestReceiverByPriority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "n")
		nodes, most := make([]Node, n), uint64(0)
		for i := range nodes {
			lo := rapid.Uint64Range(1000, recvMost/uint64(n)).Draw(t, "min")
			hi := rapid.OneOf(rapid.Just(recvLink), rapid.Uint64Range(lo, recvLink)).Draw(t, "max")
			nodes[i] = Node{ID: uint32(i + 1), Level: uint8(rapid.IntRange(1, 4).Draw(t, "level")), Min: lo, Max: hi, Demand: All}
			most += hi
		}
		p := receive(nodes)
		p.ticks(10)
		if most <= recvMost {
			return // the maximums fit the link
		}
		limits, sum := p.limits(), uint64(0)
		for i, x := range limits {
			sum += x
			if x < nodes[i].Min || x > nodes[i].Max {
				t.Fatalf("limits %d: node %d has minimum %d and maximum %d", limits, i+1, nodes[i].Min, nodes[i].Max)
			}
			for j, y := range limits {
				if nodes[i].Level < nodes[j].Level && x < nodes[i].Max && y > nodes[j].Min {
					t.Fatalf("limits %d: node %d of level %d has more than its minimum, and node %d of level %d less than its maximum", limits, j+1, nodes[j].Level, i+1, nodes[i].Level)
				}
			}
		}
		if sum != recvMost {
			t.Fatalf("limits %d are %d together, want %d", limits, sum, recvMost)
		}
	})
}

var threeLevels = []Node{
	{ID: 1, Level: 1, Min: 10e6, Max: 30e6, Demand: All}, {ID: 2, Level: 2, Min: 10e6, Max: 20e6, Demand: All}, {ID: 3, Level: 3, Min: 5e6, Max: All, Demand: All},
}

func wantLimits(t *testing.T, p *sends, what string, want ...uint64) {
	t.Helper()
	for i, got := range p.limits() {
		if got != want[i] {
			t.Errorf("%s: limits %d, want %d", what, p.limits(), want)
			return
		}
	}
}

// Limits begin with congestion, follow what the nodes want, and end with it.
func TestReceiverFollowsDemand(t *testing.T) {
	p := receive(threeLevels)
	for _, x := range p.senders {
		x.want = 10e6
	}
	p.ticks(20)
	wantLimits(t, p, "30 of 64 Mbit/s are used", 0, 0, 0)
	for _, x := range p.senders {
		x.want = All
	}
	if s := p.ticks(20); s.Flags&Congested == 0 || s.Level != 3 || s.Held != 3 {
		t.Errorf("%+v", s)
	}
	wantLimits(t, p, "all want all", 30e6, 20e6, 13e6)
	p.senders[0].want = 0
	p.ticks(20)
	wantLimits(t, p, "level 1 has ended", 0, 20e6, 43e6)
	p.senders[0].want = All
	p.ticks(20)
	wantLimits(t, p, "level 1 is back", 30e6, 20e6, 13e6)
	p.senders[1].want = 4e6 // of its 20, and it may have its minimum at any time
	p.ticks(20)
	if got := p.limits(); got[0] != 30e6 || got[1] != 10e6 || got[2] < 63e6-30e6-5e6-1 || got[2] > 63e6-30e6-4e6 {
		t.Errorf("level 2 uses 4 Mbit/s: limits %d", got)
	}
	for _, x := range p.senders {
		x.want = 5e6
	}
	if s := p.ticks(40); s.Flags&Congested != 0 || s.Held != 0 {
		t.Errorf("%+v", s)
	}
	wantLimits(t, p, "15 of 64 Mbit/s are used", 0, 0, 0)
}

// A node that ignores its limit is policed at the limit and a tolerance, and others keep theirs.
func TestReceiverPolices(t *testing.T) {
	p := receive(threeLevels)
	p.senders[2].ignores = true
	p.ticks(1 + int(policeAfter/recvTick))
	for i, x := range p.senders {
		if x.limit.Bps == 0 || x.limit.Police != 0 {
			t.Errorf("node %d cannot know its limit yet: %+v", i+1, x.limit)
		}
	}
	p.ticks(20)
	wantLimits(t, p, "one ignores its limit", 30e6, 20e6, 13e6)
	if got, want := p.senders[2].limit.Police, uint64(13e6+13e6/8); got != want {
		t.Errorf("policed at %d, want %d", got, want)
	}
	// Level 1 ends and comes back, and level 3 takes its part back in time.
	p.senders[0].want = 0
	p.ticks(20)
	p.senders[0].want = All
	p.ticks(60)
	wantLimits(t, p, "level 1 is back", 30e6, 20e6, 13e6)
	if got, want := p.senders[2].limit.Police, uint64(13e6+13e6/8); got != want {
		t.Errorf("level 1 is back: policed at %d, want %d", got, want)
	}
	// One that obeys has some time to learn a lower limit.
	p.senders[2].ignores = false
	p.senders[0].want = 0
	p.ticks(20)
	p.senders[0].want = All
	p.ticks(4)
	if x := p.senders[2].limit; x.Bps != 13e6 || x.Police != 43e6+43e6/8 {
		t.Errorf("just cut: %+v", x)
	}
	p.ticks(20)
	if x := p.senders[2].limit; x.Bps != 13e6 || x.Police != 13e6+13e6/8 {
		t.Errorf("cut a second ago: %+v", x)
	}
}

// Two addresses of a node share what the node gets.
func TestReceiverAddressesOfANode(t *testing.T) {
	p := receive(threeLevels[:1])
	p.r = NewReceiver()
	p.r.Define(threeLevels[0], Key{15: 1}, Key{15: 2})
	p.senders = append(p.senders, &sends1{key: Key{15: 2}, want: All}, &sends1{key: Key{15: 3}, want: All})
	p.ticks(20)
	wantLimits(t, p, "two addresses of level 1, and a node that is not defined", 15e6, 15e6, 33e6)
}

// Limits count what senders count: frames without stamps.
func TestReceiverWithoutStamps(t *testing.T) {
	for most, want := range map[uint64]uint64{All: recvMost * 614 / 1024, 10e6: 10e6} { // 614 = 0.6 * 1024
		r := NewReceiver()
		r.Define(Node{ID: 1, Level: 1, Max: most}, Key{15: 1})
		now, a := uint64(time.Hour), Arrivals{}
		var got Limit
		for range 20 {
			now += recvTick
			a.Bytes += 300e3 // 60 of 100 bytes, 80 Mbit/s with them
			a.Stamps += 200e3
			r.Note(Key{15: 1}, &a, now)
			r.Divide(recvLink, 1000, now)
			r.Limits(func(l Limit) { got = l })
		}
		if got.Bps > want || got.Bps < want-10 {
			t.Errorf("maximum %d: %d, want %d", most, got.Bps, want)
		}
	}
}

// Nobody goes short for a node of level 1 that only reads or acknowledges: not when congestion begins,
// not when the node begins to send, and not when another one ignores its limit.
func TestReceiverWhoSendsLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := receive([]Node{{ID: 1, Level: 1, Max: All}, {ID: 2, Level: 2, Max: All, Demand: All}, {ID: 3, Level: 2, Max: All, Demand: All}})
		little := p.senders[0]
		p.senders[1].ignores = rapid.Bool().Draw(t, "another ignores its limit")
		for _, period := range []string{"at first", "then", "at last"} {
			little.want = rapid.SampledFrom([]uint64{0, 1000, 100e3, 1e6}).Draw(t, period)
			for range rapid.IntRange(1, 30).Draw(t, "ticks") {
				p.ticks(1)
				if x := little.limit.Bps; x > max(5*1e6/2, 1000) {
					t.Fatalf("limits %d: level 1 sends %d bit/s", p.limits(), little.want)
				}
			}
		}
	})
}

// A node of level 1 that sends a good part of the link, and no more than that, is given at most 5/2 of
// it for a moment, and then 5/4.
func TestReceiverWhoSendsSome(t *testing.T) {
	const some = uint64(10e6)
	p := receive([]Node{{ID: 1, Level: 1, Max: All}, {ID: 2, Level: 2, Max: All, Demand: All}})
	for _, want := range []uint64{some, 0, some} {
		p.senders[0].want = want
		for i := range 30 {
			p.ticks(1)
			most := some * 5 / 2
			if i > 20 {
				most = some * 5 / 4
			}
			if x := p.senders[1].limit.Bps; x != 0 && x < recvMost-most {
				t.Fatalf("limits %d: level 1 sends %d bit/s", p.limits(), want)
			}
		}
	}
}

// A queue at the bottleneck keeps the rates of nodes down that have congestion control. If lower
// levels send a little more than they may, the queue stays, and what arrives of the others is not
// what they want. They get their parts nevertheless.
func TestReceiverBehindAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.IntRange(1, 4).Draw(t, "lower")
		nodes := []Node{{ID: 1, Level: 1, Max: 20e6, Demand: All}, {ID: 2, Level: 2, Max: 25e6, Demand: All}}
		for i := range low {
			nodes = append(nodes, Node{ID: uint32(i + 3), Level: 3, Max: All, Demand: All})
		}
		p := receive(nodes)
		for i, x := range p.senders {
			x.backs, x.exceeds = i < 2, i >= 2
			x.rate = rapid.Uint64Range(5e6, recvLink).Draw(t, "rate")
		}
		p.senders[0].want, p.senders[1].want = 4e6, 4e6
		p.ticks(rapid.IntRange(1, 40).Draw(t, "ticks"))
		p.senders[0].want, p.senders[1].want = All, All
		p.ticks(100)
		for range 60 { // from now on it stays so
			p.ticks(1)
			if got := p.limits(); got[0] != 20e6 || got[1] != 25e6 {
				t.Fatalf("limits %d, want 20 and 25 Mbit/s for the first two", got)
			}
		}
	})
}
