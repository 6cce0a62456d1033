// SPDX-License-Identifier: Apache-2.0

package precredit

import (
	"testing"

	"pgregory.net/rapid"
)

func TestQueueOrder(t *testing.T) {
	q := Queue{SmallBias: 3, AgingStep: 1}
	names := map[*Flow]string{}
	push := func(name string, c Class, n uint32) *Flow {
		f := new(Flow)
		names[f] = name
		q.Push(f, c, n)
		return f
	}
	take := func() string {
		f, n := q.Take(1000, 10)
		if n == 0 {
			return ""
		}
		return names[f]
	}
	push("large", Large, 20)
	push("small", Small, 10)
	for _, want := range []string{"small", "large"} {
		if got := take(); got != want {
			t.Fatalf("%s, want %s: small first", got, want)
		}
	}
	for range 3 { // the large one waits for as many rounds as the lead
		q.Round()
	}
	push("late", Small, 10)
	if got := take(); got != "large" {
		t.Fatalf("%s: a large flow that has aged is first", got)
	}
	gone := push("gone", Small, 30)
	push("last", Small, 10)
	if got := take(); got != "late" {
		t.Fatalf("%s, want late", got)
	}
	q.Drop(gone)
	q.Drop(gone)
	if gone.in != nil || gone.Left() != 0 || q.Len() != 1 {
		t.Error("dropped, and still there")
	}
	if got := take(); got != "last" {
		t.Fatalf("%s, want last", got)
	}
	if got := take(); got != "" || q.Len() != 0 {
		t.Fatalf("%q from an empty queue of %d", got, q.Len())
	}
}

func TestQueueKeepsLongPacketsInFront(t *testing.T) {
	var q Queue
	var long, short Flow
	q.Push(&long, Small, 100)
	q.Push(&short, Small, 10)
	if f, n := q.Take(99, 100); n != 0 {
		t.Fatalf("%d bytes of %v slipped past", n, f == &short)
	}
	if f, n := q.Take(100, 100); f != &long || n != 100 {
		t.Fatalf("%d bytes", n)
	}
	q.Push(&short, Large, 5) // it waits already: same place, same class
	if short.Left() != 15 || short.Class() != Small || q.Len() != 1 {
		t.Errorf("%d bytes, %v, %d flows", short.Left(), short.Class(), q.Len())
	}
}

// slow is the queue of S5.4 as it is written down: every round adds a step to each
// flow that waits.
type slow struct {
	flows []*slowFlow
	q     Queue
}

type slowFlow struct {
	f     *Flow
	class Class
	prio  uint64
	age   uint64
}

func (s *slow) push(f *Flow, c Class) {
	prio := uint64(0)
	if c == Small {
		prio = uint64(s.q.SmallBias)
	}
	s.flows = append(s.flows, &slowFlow{f, c, prio, 0})
}

func (s *slow) round() {
	for _, f := range s.flows {
		f.prio += s.q.agingStep()
		f.age++
	}
}

func (s *slow) take() *Flow {
	best := -1
	for i, f := range s.flows {
		if best < 0 {
			best = i
			continue
		}
		b := s.flows[best]
		if f.prio > b.prio || f.prio == b.prio && (f.age > b.age || f.age == b.age && f.class < b.class) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	f := s.flows[best].f
	s.flows = append(s.flows[:best], s.flows[best+1:]...)
	return f
}

// TestPropertyQueueIsAging: the queue serves in the order that adding a step to all
// that wait would give.
func TestPropertyQueueIsAging(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Queue{SmallBias: rapid.Uint32Range(0, 20).Draw(t, "lead"), AgingStep: rapid.Uint32Range(0, 5).Draw(t, "step")}
		s := slow{q: q}
		for range 20 * rapid.IntRange(1, 10).Draw(t, "steps in 20s") {
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0, 1:
				f, c := new(Flow), Class(rapid.IntRange(0, 1).Draw(t, "class"))
				q.Push(f, c, 1)
				s.push(f, c)
			case 2:
				q.Round()
				s.round()
			case 3:
				got, _ := q.Take(1, 1)
				if want := s.take(); got != want {
					t.Fatalf("served the wrong flow of %d", q.Len()+1)
				}
			}
		}
	})
}

// TestPropertyNoStarvation: whatever comes, a flow is behind no flow that came
// SmallBias / AgingStep rounds or more after it; so if each round serves at least what one round
// brings, it waits for as many rounds and what was there before it.
func TestPropertyNoStarvation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Queue{SmallBias: rapid.Uint32Range(0, 30).Draw(t, "lead"), AgingStep: rapid.Uint32Range(1, 5).Draw(t, "step")}
		maxWait := (uint64(q.SmallBias) + q.agingStep() - 1) / q.agingStep()
		perRound := rapid.IntRange(1, 4).Draw(t, "small flows a round")
		backlog := rapid.IntRange(0, 20).Draw(t, "before")
		for range backlog {
			q.Push(new(Flow), Small, 1)
		}
		large := new(Flow)
		q.Push(large, Large, 1)
		bound := maxWait + uint64(backlog/perRound) + 2
		for round := uint64(0); ; round++ {
			if round > bound {
				t.Fatalf("still waiting after %d rounds", round)
			}
			for range perRound {
				q.Push(new(Flow), Small, 1)
			}
			for range perRound { // as many as come: what waits only ages
				if f, _ := q.Take(1, 1); f == large {
					return
				}
			}
			q.Round()
		}
	})
}

// TestPropertyMisclassifyHarmless: whatever the classifier says, the same bytes of
// the same flows go out within the same rounds of pre-credit; only the order differs.
func TestPropertyMisclassifyHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Uint32Range(1, 5000), 1, 20).Draw(t, "sizes")
		credit := rapid.SliceOfN(rapid.Uint32Range(0, 3000), 1, 20).Draw(t, "credit")
		deliver := func(class func(i int) Class) (bytes map[int]uint32, spent uint32) {
			var s Source
			s.SmallBias, s.AgingStep = DefaultSmallBias, DefaultAgingStep
			s.Account.Grant(0, Grant{Epoch: 1, Open: true, Seq: 1, LifeNs: ms})
			bytes = map[int]uint32{}
			for i, n := range sizes {
				s.Push(&Flow{Data: i}, class(i), n)
			}
			limit := uint32(0)
			// After the last of the given rounds, pre-credit comes until all is out.
			for round := 0; s.Len() > 0; round++ {
				if round < len(credit) {
					limit += credit[round]
				} else {
					limit += 1000
				}
				s.Account.Credit(0, Credit{limit, 1})
				s.NextRound(0, 1000)
				for {
					p, ok := s.SrcSchedulePrecredit(0, 1000)
					if !ok {
						break
					}
					bytes[p.Flow.Data.(int)] += p.Bytes
					spent += p.Bytes
					if p.Credit.Bytes != spent {
						t.Fatalf("stamp says %d of %d", p.Credit.Bytes, spent)
					}
				}
				if spent > limit {
					t.Fatalf("sent %d on a limit of %d", spent, limit)
				}
			}
			return bytes, spent
		}
		right, all := deliver(func(i int) Class {
			if sizes[i] <= 1000 {
				return Small
			}
			return Large
		})
		wrong := rapid.SliceOfN(rapid.IntRange(0, 1), len(sizes), len(sizes)).Draw(t, "classes")
		got, spent := deliver(func(i int) Class { return Class(wrong[i]) })
		if spent != all || len(got) != len(right) {
			t.Fatalf("%d bytes of %d flows, want %d of %d", spent, len(got), all, len(right))
		}
		for i, n := range right {
			if got[i] != n || n != sizes[i] {
				t.Fatalf("flow %d: %d bytes, want %d", i, got[i], sizes[i])
			}
		}
	})
}

func TestGradient(t *testing.T) {
	var g Gradient
	if g.Part() != 1024 {
		t.Fatalf("at first %d/1024 is usable, want all", g.Part())
	}
	rtt := int64(10_000)
	for range 20 {
		g.SrcFixPrecredit(rtt)
	}
	if g.Part() != 1024 {
		t.Errorf("a steady round trip leaves %d/1024", g.Part())
	}
	before := g.Part()
	for range 30 { // a queue builds: 5 % of the base with each ACK
		rtt += 500
		now := g.SrcFixPrecredit(rtt)
		if now > before {
			t.Fatalf("the part rose from %d to %d while round trips grew", before, now)
		}
		before = now
	}
	if before > 700 {
		t.Errorf("a growing queue leaves %d/1024", before)
	}
	for range 60 {
		rtt = max(rtt-500, 10_000)
		g.SrcFixPrecredit(rtt)
	}
	if g.Part() != 1024 {
		t.Errorf("after the queue has drained %d/1024, want all", g.Part())
	}
}

func TestPropertyGradientStaysInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Gradient
		for range 100 {
			part := g.SrcFixPrecredit(rapid.Int64().Draw(t, "rtt"))
			if part < partMinQ10 || part > 1024 || part != g.Part() {
				t.Fatalf("part %d", part)
			}
		}
	})
}

// The part that the gradient holds back is not handed out in this round; one packet
// always may.
func TestRoundHonoursTheGradient(t *testing.T) {
	var s Source
	s.Account.Grant(0, Grant{Epoch: 1, Open: true, Seq: 1, Limit: 64_000, LifeNs: ms})
	s.held = 512
	var f Flow
	s.Push(&f, Small, 64_000)
	count := func() (n int) {
		s.NextRound(0, 1000)
		for _, ok := s.SrcSchedulePrecredit(0, 1000); ok; _, ok = s.SrcSchedulePrecredit(0, 1000) {
			n++
		}
		return n
	}
	if n := count(); n != 32 {
		t.Errorf("%d packets in a round with half held back, want 32", n)
	}
	s.held = 1024 - partMinQ10
	if n := count(); n != 2 {
		t.Errorf("%d packets with 1/16 of 32 000 bytes, want 2", n)
	}
	s.GiveUp()
	if n := count(); n != 0 {
		t.Errorf("%d packets without pre-credit", n)
	}
	s.Drop(&f) // the first ACK
	if s.Len() != 0 {
		t.Error("still waiting")
	}
}

func BenchmarkSchedule(b *testing.B) {
	var s Source
	s.Account.Grant(0, Grant{Epoch: 1, Open: true, Seq: 1, LifeNs: ms})
	flows := make([]Flow, 64)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Push(&flows[i&63], Class(i&1), 1000)
		s.limit += 1000
		s.NextRound(0, 1000)
		if _, ok := s.SrcSchedulePrecredit(0, 1000); !ok {
			b.Fatal("nothing")
		}
	}
}
