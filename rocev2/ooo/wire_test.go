// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// world is two nodes and one application.
type world struct {
	*wiretest.Wire
	nodes [2]*wiretest.OOONode
	app   *wiretest.OOOApp
}

// config is for a wire whose RTT is some tens of microseconds.
func config() ooo.Config {
	return ooo.Config{PMTU: rocev2.PMTU1024, InitialRTO: 2 * ooo.Millisecond, MinRTO: 200 * ooo.Microsecond}
}

// newWorld makes an application that posts ops in turn, slots at a time.
func newWorld(seed uint64, cfg ooo.Config, links, slots int, ops []wiretest.OOOMessage) *world {
	w := &world{Wire: wiretest.New(seed)}
	cfg.Seed = seed
	longest := 1
	for _, op := range ops {
		longest = max(longest, op.Len)
	}
	w.nodes = w.NewOOOPair(links, 10e9, 5*wiretest.Microsecond)
	w.app = wiretest.NewOOOApp(w.nodes[0], w.nodes[1], cfg, 9, slots, longest)
	w.app.Next = func(i int) (wiretest.OOOMessage, bool) {
		if i >= len(ops) {
			return wiretest.OOOMessage{}, false
		}
		return ops[i], true
	}
	return w
}

// faults sets the faults of all links of both directions.
func (w *world) faults(f wiretest.Faults) {
	for _, n := range w.nodes {
		for _, l := range n.Links {
			l.Faults = f
		}
	}
}

// run runs until nothing happens any more.
func (w *world) run(t testing.TB) {
	t.Helper()
	for _, n := range w.nodes {
		n.Serve()
	}
	if err := w.Run(0); err != nil {
		t.Fatal(err)
	}
	w.app.Finish()
	if err := w.Err(); err != nil {
		t.Fatal(err)
	}
}

func write(n int) wiretest.OOOMessage {
	return wiretest.OOOMessage{Op: verbs.OpWrite, Notify: true, Len: n}
}

// The three packets of a WRITE arrive in each order: memory is whole, and the message notified
// once.
func TestPermutations(t *testing.T) {
	for i, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		w := newWorld(uint64(i), config(), 1, 1, []wiretest.OOOMessage{write(2500)})
		var arrived []int
		delay := map[rocev2.PSN]qp.Time{}
		for at, packet := range order {
			delay[rocev2.PSN(packet)] = qp.Time(at) * 3 * wiretest.Microsecond
		}
		link := w.nodes[0].Links[0]
		link.Tap = func(p *rocev2.Packet) { link.Delay = 5*wiretest.Microsecond + delay[p.BTH().PSN()] }
		link.ReorderBy, link.Reorder = 1, 1 // packets may overtake
		back := w.nodes[1].Links[0]
		back.Tap = func(p *rocev2.Packet) {
			if p.Opcode() == rocev2.OpOAck {
				arrived = append(arrived, int(p.BTH().PSN()))
			}
		}
		w.run(t)
		if len(arrived) != 3 || [3]int(arrived) != order || w.app.Notified != 1 {
			t.Errorf("order %v: packets were answered in order %v, %d notifications", order, arrived, w.app.Notified)
		}
	}
}
