// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// place is a scenario's network, and how its links are called there.
type place struct {
	sim.Topology
	trunks []sim.Direction // trunks by number
}

func newPlace(s *scenario.Scenario) (*place, error) {
	host, trunk := link(s, s.Links.Host), link(s, s.Links.Trunk)
	p := &place{}
	var err error
	switch t := s.Topology; t.Kind {
	case "star":
		p.Topology = sim.Star(t.Hosts, host)
	case "dumbbell":
		p.Topology = sim.Dumbbell(t.Hosts/2, host, trunk)
		p.trunks = p.Bottlenecks[:1] // to the right
	case "parking-lot":
		p.Topology = sim.ParkingLot(t.Hops, host, trunk)
		p.trunks = p.Bottlenecks
	case "leaf-spine":
		p.Topology = sim.LeafSpine(t.Hosts/t.PerLeaf, t.PerLeaf, t.Spines, host, trunk)
	case "fat-tree":
		p.Topology, err = sim.FatTree(t.K, host, trunk)
	default:
		err = fmt.Errorf("there is no topology %q", t.Kind)
	}
	return p, err
}

func link(s *scenario.Scenario, rate scenario.Rate) sim.Link {
	return sim.Link{Bps: uint64(rate), Delay: time.Duration(s.Links.Delay), Jitter: time.Duration(s.Links.Jitter), Loss: float64(s.Links.Loss)}
}

// direction finds the direction of a wire that a scenario means.
func (p *place) direction(l scenario.Link) (sim.Direction, error) {
	if l.Kind == "trunk" {
		if l.Number >= len(p.trunks) {
			return sim.Direction{}, fmt.Errorf("there is no %v", l)
		}
		d := p.trunks[l.Number]
		if l.Back {
			d.From, d.To = d.To, d.From
		}
		return d, nil
	}
	for _, w := range p.Wires {
		if w.A == l.Number && w.A < p.Hosts {
			if l.Kind == "down" {
				return sim.Direction{From: w.B, To: w.A}, nil
			}
			return sim.Direction{From: w.A, To: w.B}, nil
		}
	}
	return sim.Direction{}, fmt.Errorf("there is no %v", l)
}
