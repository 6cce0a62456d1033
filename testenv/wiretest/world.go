// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// World is a scenario that was built: a wire, two nodes, their endpoints.
type World struct {
	*Wire
	Nodes [2]*Node
	Pairs [][2]*Endpoint
}

// Build makes the world of s. Its operations begin with Run.
func Build(s *Scenario) *World {
	w := &World{Wire: New(s.Seed)}
	var supply [2]*Supply
	for side := range w.Nodes {
		w.Nodes[side] = w.NewNode([]string{"A", "B"}[side], side+1, s.V6, s.Rate, s.Hold)
	}
	for side, n := range w.Nodes {
		p := n.PathTo(w.Nodes[1-side])
		p.Delay, p.Faults = s.Delay, s.Path[side]
		if s.SRQ {
			supply[side] = newSupply(n, &s.Settings)
		}
	}
	for i := range s.Ops {
		var pair [2]*Endpoint
		for side, n := range w.Nodes {
			pd := uint32(srqPD + i)
			if s.SRQ {
				pd = srqPD
			}
			pair[side] = NewEndpoint(n, pd, &s.Settings, supply[side])
			from := s.Path[1-side]
			pair[side].disorder = s.Type == verbs.UC && (from.Reorder > 0 || from.Duplicate > 0)
			pair[side].Ops = slices.Clone(s.Ops[i][side])
		}
		w.Pairs = append(w.Pairs, pair)
		if s.Type == verbs.UD {
			continue
		}
		if s.Encrypt != nil {
			w.encrypt(i, *s.Encrypt)
		}
		Connect(pair[0], pair[1], &s.Settings)
	}
	if s.Type == verbs.UD {
		w.introduce(&s.Settings)
	}
	return w
}

// encrypt gives both ends of a pair keys, each direction others.
func (w *World) encrypt(pair int, l seal.Limits) {
	for side, e := range w.Pairs[pair] {
		k := seal.Keys{Suite: seal.AES128GCM, Send: seal.Secret{byte(pair), byte(side)}, Receive: seal.Secret{byte(pair), byte(1 - side)}}
		var err error
		if e.Keys, err = seal.NewEnd(k, l); err == nil {
			err = e.QP.SetKeys(e.Keys, nil)
		}
		if err != nil {
			e.fail("%v", err)
		}
	}
}

// introduce lets every UD queue pair of a node send to all of the other.
func (w *World) introduce(s *Settings) {
	for _, pair := range w.Pairs {
		for side, e := range pair {
			for _, other := range w.Pairs {
				e.Dest = append(e.Dest, other[1-side])
			}
			e.Up(nil, 0, s.Start[side], 0, s)
		}
	}
}

// Finish runs the world until nothing happens any more and checks everything.
func (w *World) Finish() error {
	for _, n := range w.Nodes {
		n.Serve()
	}
	if err := w.Run(0); err != nil {
		return err
	}
	for _, n := range w.Nodes {
		if what := n.Quiet(); what != "" {
			w.Failf("nothing happens any more, but %s", what)
		}
	}
	atomics := [2]int{}
	failed := false
	for _, pair := range w.Pairs {
		for side, e := range pair {
			e.check()
			e.Recv.check()
			failed = failed || e.Failed != verbs.StatusSuccess
			for _, op := range e.Ops {
				if isAtomic(op.Kind) {
					atomics[1-side]++
				}
			}
		}
	}
	for side, n := range w.Nodes {
		n.check()
		if n.Mem.Atomics != atomics[side] && !failed {
			w.Failf("%s executed %d atomic operations instead of %d", n.Name, n.Mem.Atomics, atomics[side])
		}
	}
	return w.Err()
}
