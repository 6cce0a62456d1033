// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// Nodes come, go, vanish, come back with and without their token, report whatever and whenever, and
// return what they like; the server zeroes slowly and restarts. pool.check has the rules that hold all the
// time: no slab has two owners, no key of a former owner is valid, and no slab is opened with old data.
// When all nodes have vanished, all slabs are free within a bounded time.
func TestProperties(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { (&storm{rng: rand.New(rand.NewPCG(seed, 1))}).run(t) })
	}
}

type storm struct {
	*pool
	rng  *rand.Rand
	c    Config
	last map[string]Welcome
}

func (s *storm) run(t *testing.T) {
	s.c = Config{
		Slabs: 1 + s.rng.IntN(20), MaxNodes: 4, Hold: time.Duration(1+s.rng.IntN(5)) * time.Second,
		Grace: time.Duration(1+s.rng.IntN(3000)) * time.Millisecond,
	}
	s.pool, s.last = newPool(t, s.c), map[string]Welcome{}
	s.slow = s.rng.IntN(2) == 0
	for range 300 {
		s.step()
		s.returnsInTime()
	}
	for _, n := range s.table.Status(s.now).Nodes {
		for _, w := range s.last {
			if w.Node == n.ID {
				s.table.Lost(s.now, w.Node, w.Session)
			}
		}
	}
	s.until(s.now+s.c.Hold, nil)
	s.finish(len(s.closing))
	if x := s.table.Status(s.now); x.Free != s.c.Slabs || len(s.keys) != 0 {
		t.Fatalf("all nodes have vanished, and after Hold %d of %d slabs are free: %+v", x.Free, s.c.Slabs, x)
	}
}

// step does one thing that may happen.
func (s *storm) step() {
	name := string(rune('a' + s.rng.IntN(6)))
	w := s.last[name]
	switch s.rng.IntN(12) {
	case 0, 1, 2:
		s.comes(name, w)
	case 3:
		if list, err := s.table.Leave(w.Node); err == nil {
			s.pool.run(list)
		}
	case 4:
		s.table.Lost(s.now, w.Node, w.Session)
	case 5:
		s.pool.run(s.table.Report(s.now, w.Node, s.rng.Uint32N(4), s.usage()))
	case 6:
		var list []Slab
		for range s.rng.IntN(5) {
			list = append(list, Slab(s.rng.IntN(s.c.Slabs+2)))
		}
		s.pool.run(s.table.Return(w.Node, list))
	case 7:
		s.finish(s.rng.IntN(len(s.closing) + 1))
	case 8:
		if s.rng.IntN(10) == 0 {
			saved := s.table.Save()
			s.start(s.c, &saved)
		}
	default:
		s.until(s.now+time.Duration(s.rng.IntN(2000))*time.Millisecond, func(n NodeID, period uint32) {
			if s.rng.IntN(4) > 0 {
				s.pool.run(s.table.Report(s.now, n, period, s.usage()))
			}
		})
	}
}

func (s *storm) comes(name string, w Welcome) {
	token := []uint64{w.Token, w.Token, 0, s.rng.Uint64()}[s.rng.IntN(4)]
	r := Request{Name: name, Token: token, Period: time.Duration(10+s.rng.IntN(2000)) * time.Millisecond, Demand: s.usage().Demand}
	taken := s.table.byName(name) != nil
	now, list, err := s.table.Join(s.now, r)
	if err == nil && taken && token != w.Token {
		s.t.Fatalf("node %s: token %d is accepted instead of %d", name, token, w.Token)
	}
	if err == nil {
		s.last[name] = now
		s.pool.run(list)
	}
}

func (s *storm) usage() Usage {
	if s.rng.IntN(20) == 0 {
		return Usage{Demand: 1<<64 - 1, Used: 1<<64 - 1}
	}
	return Usage{Demand: s.rng.Uint64N(20 * slabBytes), Used: s.rng.Uint64N(20 * slabBytes)}
}

// returnsInTime checks that a slab to return has no key after its deadline.
func (s *storm) returnsInTime() {
	s.t.Helper()
	for i, x := range s.table.slabs {
		if left := x.until - s.now; x.state == returning && (left < 0 || left > s.c.Grace) {
			s.t.Fatalf("slab %d is to be returned within %v: not in 0 to %v", i, left, s.c.Grace)
		}
	}
}
