// SPDX-License-Identifier: Apache-2.0

// Package inspect compares what is in force on an attached interface with what attach has set up:
// programs, qdiscs, pins, state file, queues and feedback. Internal to this project.
package inspect

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/pacer"
)

// Kind is what a finding is about: a short name that does not change, for metrics.
type Kind string

// The kinds.
const (
	Ingress  Kind = "ingress"  // the XDP program
	Egress   Kind = "egress"   // the TC program
	Order    Kind = "order"    // programs before the TC program
	Qdisc    Kind = "qdisc"    // the root qdisc
	Classes  Kind = "classes"  // of the root qdisc
	Pins     Kind = "pins"     // in the bpf file system
	State    Kind = "state"    // the state file
	Queues   Kind = "queues"   // receive queues and sockets of the engine
	Feedback Kind = "feedback" // from destinations
	Pacer    Kind = "pacer"    // requests of the agent that the kernel refuses
	Hello    Kind = "hello"    // control packets that the kernel refuses
	Unread   Kind = "unread"   // what could not be read
)

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{Ingress, Egress, Order, Qdisc, Classes, Pins, State, Queues, Feedback, Pacer, Hello, Unread}
}

// RepairedKinds lists those that the agent may repair.
func RepairedKinds() []Kind { return []Kind{Ingress, Egress, Qdisc, Classes, Pins, State} }

// Finding is a difference.
type Finding struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"` // description of the fault, and the remedy

	// Repairable: something is missing that the agent creates again, and nobody else has put
	// anything in its place.
	Repairable bool `json:"repairable,omitempty"`

	Note string `json:"note,omitempty"` // reason why the agent does not repair that
}

// Facts are what was read.
type Facts struct {
	Interface string
	Egress    loader.EgressHook
	XDP, TC   loader.Hook
	Qdisc     pacer.Condition
	LostPins  []string
	State     error // reason why the state file cannot be used, nil = it can

	Queues  int // receive queues of the interface, 0 = the driver does not report them
	Sockets int // sockets of the engine, 0 = there is no engine

	Silent []Silent

	Errors []error // errors of the reading
}

// Silent is a destination that was sent data for a while, and has never had feedback.
type Silent struct {
	Addr    netip.Addr
	Packets uint64
}

// Compare returns the differences, in the order of Kinds.
func Compare(f *Facts) []Finding {
	var all []Finding
	say := func(k Kind, repairable bool, format string, args ...any) {
		all = append(all, Finding{Kind: k, Text: fmt.Sprintf(format, args...), Repairable: repairable})
	}
	upgrade := fmt.Sprintf("`softroce-xdp attach --upgrade %s`", f.Interface)
	switch x := f.XDP; {
	case x.Ours:
	case len(x.Others) > 0:
		say(Ingress, false, "the XDP program was replaced by %s: stamps and RDMA do not arrive; detach that (`bpftool net` shows it), then run %s", list(x.Others), upgrade)
	default:
		say(Ingress, true, "the XDP program was detached: stamps and RDMA do not arrive; run %s if the agent does not attach it again", upgrade)
	}
	switch x := f.TC; {
	case !x.Ours:
		say(Egress, true, "the egress program (%s) was removed: packets leave without stamps and unpaced; run %s if the agent does not attach it again", f.Egress, upgrade)
	case len(x.Others) == 0:
	case f.Egress == loader.EgressTCX:
		say(Order, false, "%s runs before the egress program, and keeps packets from it if it ends the chain; %s puts the program of softroce-xdp in front", list(x.Others), upgrade)
	default:
		say(Order, false, "%s runs before the egress program, and keeps packets from it unless it continues with the next filter; give it a later priority (`tc filter show dev %s egress`)", list(x.Others), f.Interface)
	}
	switch q := f.Qdisc; {
	case q.Other != "":
		say(Qdisc, false, "the root qdisc %s is not that of the pacer: packets leave unpaced; %s replaces it, detach and `--pacer police` does without", q.Other, upgrade)
	case q.Gone:
		say(Qdisc, true, "the root qdisc of the pacer was removed: packets leave unpaced; run %s if the agent does not create it again", upgrade)
	case q.Missing > 0:
		say(Classes, true, "%d classes of the root qdisc were removed: packets of these destinations leave unpaced; run %s if the agent does not create them again", q.Missing, upgrade)
	}
	if len(f.LostPins) > 0 {
		say(Pins, true, "pins were removed: %s; the agent pins them again, or detach and attach", list(f.LostPins))
	}
	if f.State != nil {
		say(State, true, "%v; the agent writes it again, or detach and attach", f.State)
	}
	if f.Sockets > 0 && f.Queues > f.Sockets {
		say(Queues, false, "the interface has %d receive queues, the engine has sockets for %d: RDMA that arrives on the others is lost; run %s, or set them back (`ethtool -L %s`)",
			f.Queues, f.Sockets, upgrade, f.Interface)
	}
	if len(f.Silent) > 0 {
		s := f.Silent[0]
		more := ""
		if n := len(f.Silent) - 1; n > 0 {
			more = fmt.Sprintf(", and %d more", n)
		}
		say(Feedback, false, "%v was sent %d packets and has never had feedback%s: no congestion is noticed; see that the reverse path is by this interface, and that nothing drops UDP port 4791", s.Addr, s.Packets, more)
	}
	for _, err := range f.Errors {
		say(Unread, false, "%v", err)
	}
	return all
}

// list joins names; after the third it counts.
func list(names []string) string {
	if n := len(names); n > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), n-3)
	}
	return strings.Join(names, ", ")
}
