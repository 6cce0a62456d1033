// SPDX-License-Identifier: Apache-2.0

package precredit

import (
	"testing"

	"pgregory.net/rapid"
)

// Weights start equal and fall as a flow is served, so one that begins is ahead of one
// that has gone on for long, and never the other way round for ever.
func TestPollFavoursTheNew(t *testing.T) {
	p := Poll{Weight: 4, Quantum: 1000, WeightDecayBytes: 4000}
	var old, young Arrivals
	for range 200 {
		p.Push(&old, 1000)
	}
	for range 100 {
		p.Pop()
	}
	if old.Weight() != 1 {
		t.Fatalf("weight %d after 100 000 bytes, want 1", old.Weight())
	}
	for range 8 {
		p.Push(&young, 1000)
	}
	if young.Weight() != 4 {
		t.Fatalf("weight %d, want the initial 4", young.Weight())
	}
	var order []byte
	for range 12 {
		switch a, _ := p.Pop(); a {
		case &old:
			order = append(order, 'o')
		case &young:
			order = append(order, 'y')
		}
	}
	// 4 in the young one's first turn, which costs it a unit: 3 in the next.
	if got, want := string(order), "oyyyyoyyyoyo"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
}

func TestPollEmpty(t *testing.T) {
	var p Poll
	if a, _ := p.Pop(); a != nil || p.Len() != 0 {
		t.Error("a packet out of nothing")
	}
	var f Arrivals
	p.Push(&f, 7)
	if a, n := p.Pop(); a != &f || n != 7 || p.Len() != 0 {
		t.Errorf("%d bytes, %d flows left", n, p.Len())
	}
	if a, _ := p.Pop(); a != nil {
		t.Error("a packet twice")
	}
}

// TestPropertyPoll: nothing is lost, doubled or reordered within a flow, weights only
// fall, and between two packets of a flow others get no more than Bound.
func TestPropertyPoll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const longest = 9000
		p := Poll{
			Weight:           rapid.Uint32Range(0, 10).Draw(t, "weight"),
			Quantum:          rapid.Uint32Range(0, 5000).Draw(t, "quantum"),
			WeightDecayBytes: rapid.Uint32Range(0, 10_000).Draw(t, "fade"),
		}
		flows := make([]Arrivals, rapid.IntRange(1, 6).Draw(t, "flows"))
		type state struct {
			pushed, popped []uint32
			weight         uint32
			others         int64 // bytes of others since its last packet, or since it waits
		}
		states := make([]state, len(flows))
		for i := range flows {
			flows[i].Data = i
		}
		pop := func() {
			a, n := p.Pop()
			if a == nil {
				return
			}
			i := a.Data.(int)
			s := &states[i]
			s.popped = append(s.popped, n)
			if s.weight != 0 && a.Weight() > s.weight || a.Weight() == 0 {
				t.Fatalf("weight rose from %d to %d", s.weight, a.Weight())
			}
			s.weight = a.Weight()
			s.others = 0
			for j := range states {
				o := &states[j]
				if j == i || len(o.popped) == len(o.pushed) {
					continue
				}
				if o.others += int64(n); o.others > p.Bound(len(flows), longest) {
					t.Fatalf("%d bytes of others before a packet that waits, bound %d", o.others, p.Bound(len(flows), longest))
				}
			}
		}
		for range 20 * rapid.IntRange(1, 10).Draw(t, "steps in 20s") {
			if rapid.IntRange(0, 2).Draw(t, "do") == 0 {
				pop()
				continue
			}
			i := rapid.IntRange(0, len(flows)-1).Draw(t, "flow")
			n := rapid.Uint32Range(0, longest).Draw(t, "bytes")
			if s := &states[i]; len(s.pushed) == len(s.popped) {
				s.others = 0
			}
			p.Push(&flows[i], n)
			states[i].pushed = append(states[i].pushed, n)
		}
		for p.Len() > 0 {
			pop()
		}
		for i, s := range states {
			if len(s.pushed) != len(s.popped) {
				t.Fatalf("flow %d: %d packets in, %d out", i, len(s.pushed), len(s.popped))
			}
			for j := range s.pushed {
				if s.pushed[j] != s.popped[j] {
					t.Fatalf("flow %d: packet %d has %d bytes, had %d", i, j, s.popped[j], s.pushed[j])
				}
			}
		}
	})
}

func BenchmarkPoll(b *testing.B) {
	var p Poll
	flows := make([]Arrivals, 64)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Push(&flows[i&63], 1000)
		if i > 200 {
			p.Pop()
		}
	}
}

// Turn is what Pop goes by: the weight of a flow of which so much was served, in quanta.
func TestPollTurn(t *testing.T) {
	for _, p := range []*Poll{{}, {Weight: 3, Quantum: 100, WeightDecayBytes: 1000}, {Weight: 1}} {
		var a Arrivals
		served := uint64(0)
		for range 200 {
			p.Push(&a, 700)
			if got, want := p.Turn(served), a.Weight()*or(p.Quantum, DefaultQuantum); got != want {
				t.Fatalf("%+v: a turn of %d after %d bytes, want %d", p, got, served, want)
			}
			p.Pop()
			served += 700
		}
		if got, want := p.Turn(1<<60), or(p.Quantum, DefaultQuantum); got != want {
			t.Errorf("at last %d, want one quantum of %d", got, want)
		}
	}
}
