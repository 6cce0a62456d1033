// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader/nodefile"
)

// Priority is the priority of a destination's node by the node file (S4.5). The addresses of a
// node share its minimum and maximum.
type Priority struct {
	Level  uint8  `json:"level"` // 1 is the highest
	MinBps uint64 `json:"min_bps"`
	MaxBps uint64 `json:"max_bps"` // 0 = no bound
	Held   bool   `json:"held"`    // the rate is below what the four-case policy allows
}

// SetPriorities adds the priorities of the node file. A file without priorities changes
// nothing. With priorities, nodes that the file does not list have the lowest level.
func (t *Table) SetPriorities(file nodefile.File) {
	if !file.Prioritized() {
		return
	}
	of := map[string]*nodefile.Node{}
	for i := range file.Nodes {
		for _, a := range file.Nodes[i].Addresses {
			of[a.Unmap().String()] = &file.Nodes[i]
		}
	}
	for i := range t.Destinations {
		d := &t.Destinations[i]
		p := &Priority{Level: priority.Levels, Held: d.Policy.RateBps > d.RateBps && d.RateBps != 0}
		if n := of[mapped(d.Address)]; n != nil {
			p.MinBps, p.MaxBps = uint64(n.Min), uint64(n.Max)
			if n.Level != 0 {
				p.Level = n.Level
			}
		}
		d.Priority = p
	}
}

func mapped(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	return a.Unmap().String()
}

func (t *Table) prioritized() bool {
	return len(t.Destinations) > 0 && t.Destinations[0].Priority != nil
}

// priorityColumns are shown only where the node file gives priorities.
var priorityColumns = []Column{
	priorityColumn("LEVEL", "level", "priority of its node, 1 is the highest",
		func(p *Priority) string { return strconv.Itoa(int(p.Level)) },
		func(a, b *Priority) int { return cmp.Compare(a.Level, b.Level) }),
	priorityColumn("MIN", "min", "minimum of its node, in bits per second",
		func(p *Priority) string { return dashUnless(p.MinBps != 0, cli.Rate(p.MinBps)) },
		func(a, b *Priority) int { return cmp.Compare(b.MinBps, a.MinBps) }),
	priorityColumn("MAX", "max", "maximum of its node, in bits per second",
		func(p *Priority) string { return dashUnless(p.MaxBps != 0, cli.Rate(p.MaxBps)) },
		func(a, b *Priority) int { return cmp.Compare(b.MaxBps, a.MaxBps) }),
	priorityColumn("HELD", "held", "whether priority holds the rate below what the four-case policy allows",
		func(p *Priority) string { return dashUnless(p.Held, "yes") },
		func(a, b *Priority) int { return cmp.Compare(yes(b.Held), yes(a.Held)) }),
}

func priorityColumn(head, sort, text string, cell func(*Priority) string, compare func(a, b *Priority) int) Column {
	none := &Priority{}
	of := func(d *Destination) *Priority {
		if d.Priority == nil {
			return none
		}
		return d.Priority
	}
	return Column{Head: head, Sort: sort, Text: text, Priority: true,
		cell:    func(d *Destination) string { return cell(of(d)) },
		compare: func(a, b *Destination) int { return compare(of(a), of(b)) }}
}

// PriorityState is the policy of S4.5 at this moment.
type PriorityState struct {
	On          bool   `json:"on"`
	CapacityBps uint64 `json:"capacity_bps"` // rate that is shared
	Estimated   bool   `json:"estimated"`    // the capacity is estimated from congestion at all destinations
	Active      uint32 `json:"active"`       // destinations that it is shared among
	Congested   bool   `json:"congested"`
	Scaled      bool   `json:"scaled"` // the capacity is too small for the minimums
	Level       uint32 `json:"level"`  // level in which the capacity ends, 0 = in none
	Held        uint32 `json:"held"`
}

func priorityStateOf(cfg *bpf.Config) *PriorityState {
	return stateOf(&cfg.PriorityNow)
}

// stateOf returns a state of the policy, nil if it is off.
func stateOf(now *bpf.PriorityState) *PriorityState {
	s := bpf.StateAs[priority.State](now)
	if s.Flags&priority.On == 0 {
		return nil
	}
	return &PriorityState{
		On: true, CapacityBps: s.CapacityBps, Estimated: s.Flags&priority.Estimated != 0, Active: s.Active,
		Congested: s.Flags&priority.Congested != 0, Scaled: s.Flags&priority.Scaled != 0, Level: s.Level, Held: s.Held,
	}
}

// String is the line of `status`.
func (p *PriorityState) String() string {
	from := ""
	if p.Estimated {
		from = " (estimated from congestion that all see)"
	}
	text := fmt.Sprintf("shares %sbit/s%s among %d active", cli.Rate(p.CapacityBps), from, p.Active)
	switch {
	case p.Scaled:
		return text + "; not even their minimums fit"
	case !p.Congested:
		return text + "; enough for all"
	}
	return fmt.Sprintf("%s; it ends in level %d, %d held back", text, p.Level, p.Held)
}
