// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// sparse returns n messages for a world that posts one at a time.
func sparse(n, length int) []wiretest.OOOMessage {
	ops := make([]wiretest.OOOMessage, n)
	for i := range ops {
		ops[i] = write(length)
	}
	return ops
}

// The last packet of a message, its notification and the responses to them have no later packets that
// reveal their loss. A probe does, long before the RTO, and also when the first probe is lost.
func TestTailLoss(t *testing.T) {
	last := func(p *rocev2.Packet) bool {
		return p.Opcode() == rocev2.OpOWrite && p.OETH().Fields().Flags&rocev2.OLast != 0
	}
	is := func(op rocev2.Opcode) func(p *rocev2.Packet) bool {
		return func(p *rocev2.Packet) bool { return p.Opcode() == op }
	}
	const before, most = 20, 150 * wiretest.Microsecond
	for _, c := range []struct {
		name string
		from int // node
		lost func(p *rocev2.Packet) bool
	}{
		{"last OWRITE", 0, last}, {"ONOTIFY", 0, is(rocev2.OpONotify)},
		{"all OACKs", 1, is(rocev2.OpOAck)}, {"ONOTIFY_ACK", 1, is(rocev2.OpONotifyAck)},
	} {
		for times := 1; times <= 2; times++ {
			cfg := config()
			cfg.MinRTO = 10 * ooo.Millisecond
			w := newWorld(1, cfg, 1, 1, sparse(before+1, 4000))
			lost := map[rocev2.PSN]int{}
			w.nodes[c.from].Links[0].Drop = func(p *rocev2.Packet) bool {
				if w.app.Posted <= before || !c.lost(p) || lost[p.BTH().PSN()] == times {
					return false
				}
				lost[p.BTH().PSN()]++
				return true
			}
			w.run(t)
			took := w.app.Last - w.app.Started[before]
			t.Logf("%s lost %d times: %d us; %d probes", c.name, times, took/1000, w.nodes[0].Count.Probes)
			if len(lost) == 0 || took > most {
				t.Errorf("%s lost %d times (%v): %d us, want %d", c.name, times, lost, took/1000, most/1000)
			}
		}
	}
}

// A packet is lost again and again. The window of the target then has only packets that are
// answered. A probe moves it on before the RTO.
func TestStalledWindow(t *testing.T) {
	cfg := config()
	cfg.Window, cfg.MinRTO = 64, 10*ooo.Millisecond
	w := newWorld(5, cfg, 1, 16, sparse(200, 16<<10))
	const psn, times = 1000, 6
	lost := 0
	w.nodes[0].Links[0].Drop = func(p *rocev2.Packet) bool {
		if p.BTH().PSN() != psn || lost == times {
			return false
		}
		lost++
		return true
	}
	w.run(t)
	t.Logf("%d us, %+v", w.app.Last/1000, w.nodes[0].Count)
	if lost != times || w.app.Last > qp.Time(cfg.MinRTO) {
		t.Errorf("lost %d times, %d us, want less than the RTO of %d", lost, w.app.Last/1000, cfg.MinRTO/1000)
	}
}

// Probes are a small share of the packets, and a source with something to send sends none.
func TestProbeShare(t *testing.T) {
	for slots, name := range map[int]string{1: "idle", 64: "busy"} {
		ops := sparse(2000, 4000)
		cfg := config()
		cfg.Window = 4096 // an old packet does not close it
		w := newWorld(2, cfg, 1, slots, ops)
		w.faults(wiretest.Faults{Reorder: 0.3, ReorderBy: 200 * wiretest.Microsecond, Loss: 0.01})
		var packets, probes uint64
		w.app.Done = func(int) { // the end of the run is idle
			if w.app.Posted < len(ops) {
				c := &w.nodes[0].Count
				packets, probes = c.SentPackets-c.Resent, c.Probes
			}
		}
		w.run(t)
		t.Logf("%s: %d packets, %d probes; in all %+v", name, packets, probes, w.nodes[0].Count)
		most := packets/16 + 8
		if slots > 1 {
			most = packets / 100
		}
		if probes > most || slots == 1 && probes < packets/50 {
			t.Errorf("%s: %d packets, %d probes, want at most %d", name, packets, probes, most)
		}
	}
}

// A source that is idle most of the time finds out, too, which path is dead, although probes get its
// packets through before they are found lost.
func TestProbesReplacePath(t *testing.T) {
	cfg := config()
	cfg.MinRTO = 10 * ooo.Millisecond
	w := newWorld(3, cfg, 1, 1, sparse(3000, 500))
	w.faults(wiretest.Faults{Reorder: 0.5, ReorderBy: 4 * wiretest.Microsecond}) // so ports are chosen at random
	var port uint16
	lost := 0
	w.nodes[0].Links[0].Drop = func(p *rocev2.Packet) bool {
		if w.app.Completed == 500 && port == 0 {
			port = p.SrcPort()
		}
		if p.SrcPort() == port {
			lost++
		}
		return p.SrcPort() == port
	}
	w.run(t)
	c := &w.nodes[0].Count
	t.Logf("%d packets lost; %d paths replaced, %d probes, %d of %d packets sent again", lost, c.PathsReplaced, c.Probes, c.Resent, c.SentPackets)
	if lost == 0 || lost > 8 || c.PathsReplaced == 0 {
		t.Errorf("%d packets lost on port %d, %+v", lost, port, *c)
	}
}

// After a time with much reordering the wire is in order, and a loss is again found quickly.
func TestReorderingEnds(t *testing.T) {
	ops := sparse(1200, 16<<10)
	w := newWorld(4, config(), 1, 8, ops)
	w.faults(wiretest.Faults{Reorder: 0.5, ReorderBy: 300 * wiretest.Microsecond})
	link := w.nodes[0].Links[0]
	var psn rocev2.PSN
	var lost, again qp.Time
	link.Drop = func(p *rocev2.Packet) bool {
		if w.app.Completed < 1000 || lost != 0 || p.Opcode() != rocev2.OpOWrite {
			return false
		}
		lost, psn = w.Now(), p.BTH().PSN()
		return true
	}
	link.Tap = func(p *rocev2.Packet) {
		if lost != 0 && again == 0 && p.BTH().PSN() == psn {
			again = w.Now()
		}
	}
	var early uint64
	w.app.Done = func(int) {
		if w.app.Completed == 300 {
			early = w.nodes[0].Count.Spurious
			w.faults(wiretest.Faults{})
		}
	}
	w.run(t)
	t.Logf("%d spurious losses, then a loss is found after %d us", early, (again-lost)/1000)
	if early < 10 || again == 0 || again-lost > 60*wiretest.Microsecond {
		t.Errorf("%d spurious losses, lost at %d, sent again at %d", early, lost, again)
	}
}
