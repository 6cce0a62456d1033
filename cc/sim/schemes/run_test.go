// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim"
)

// baselines are the published schemes of the table.
func baselines() []string {
	var names []string
	for _, e := range slices.Concat(dcqcnEntries, timelyEntries, dctcpEntries, hpccEntries, swiftEntries, expresspassEntries) {
		names = append(names, e.Name)
	}
	return names
}

// star is hosts at 100 Gb/s around one switch, 1 us away.
func star(hosts int) sim.Topology {
	t := sim.Topology{Name: "star", Hosts: hosts, Switches: 1}
	for h := range hosts {
		t.Wires = append(t.Wires, sim.Wire{A: h, B: hosts, Link: sim.Link{Bps: 100e9, Delay: time.Microsecond}})
	}
	return t
}

// incast sends bytes from each of senders hosts to host 0.
func incast(t *testing.T, name string, senders int, bytes int64) (*sim.Net, []*sim.Flow) {
	t.Helper()
	s, err := New(name)
	if err != nil {
		t.Fatal(err)
	}
	n, err := sim.New(sim.Config{Seed: 1}, star(senders+1), s)
	if err != nil {
		t.Fatal(err)
	}
	var flows []*sim.Flow
	for i := range senders {
		f, err := n.Add(sim.FlowSpec{Src: 1 + i, Dst: 0, Bytes: bytes})
		if err != nil {
			t.Fatal(err)
		}
		flows = append(flows, f)
	}
	if !n.RunAll(100 * time.Millisecond) {
		t.Fatalf("%s: %d of %d flows done in 100 ms", name, n.DoneFlows, senders)
	}
	return n, flows
}

// Sixteen flows of 400 kB need 554 us of the last link. Every published scheme brings
// them over without a timeout and without wasting half of it.
func TestIncastCompletes(t *testing.T) {
	for _, name := range baselines() {
		t.Run(name, func(t *testing.T) {
			_, flows := incast(t, name, 16, 400_000)
			var last int64
			for _, f := range flows {
				last = max(last, f.EndNs)
				if f.Timeouts > 0 {
					t.Errorf("flow %d: %d timeouts", f.ID, f.Timeouts)
				}
			}
			if last < 554_000 || last > 1_100_000 {
				t.Errorf("done after %d us, want 554 to 1100", last/1000)
			}
		})
	}
}

// A packet alone takes as long as the links make it, but for a credit's round trip.
func TestLonePacketIsNotHeldBack(t *testing.T) {
	for _, name := range baselines() {
		_, flows := incast(t, name, 1, 1000)
		want := 1.0
		if name == "expresspass" {
			want = 3 // request, credit, data: 1.5 round trips instead of half of one
		}
		if got := flows[0].Slowdown(); got < want*.9 || got > want*1.1 {
			t.Errorf("%s: slowdown %.3f, want %g", name, got, want)
		}
	}
}

// Of 64 first packets that meet most are dropped. Aeolus' probes find that out in
// a round trip; a retransmission timer would take 4 ms.
func TestAeolusRecoversWithoutTimeouts(t *testing.T) {
	n, flows := incast(t, "aeolus", 64, 1000)
	if n.DataDrops[sim.DropUnscheduled] < 32 {
		t.Errorf("%d packets dropped: this tests nothing", n.DataDrops[sim.DropUnscheduled])
	}
	for _, f := range flows {
		if f.Timeouts > 0 || f.FCTNs() > 100_000 {
			t.Errorf("flow %d: %d timeouts, done after %d us", f.ID, f.Timeouts, f.FCTNs()/1000)
		}
	}
}

func TestSameRunSameResult(t *testing.T) {
	for _, name := range Names() {
		a, fa := incast(t, name, 8, 100_000)
		b, fb := incast(t, name, 8, 100_000)
		if a.PacketHops != b.PacketHops {
			t.Errorf("%s: %d and %d packet hops", name, a.PacketHops, b.PacketHops)
		}
		for i := range fa {
			if fa[i].EndNs != fb[i].EndNs {
				t.Errorf("%s: flow %d ends at %d and %d", name, i, fa[i].EndNs, fb[i].EndNs)
			}
		}
	}
}

// The credits that pass are those that the link can bring data for: hardly a queue
// of data, however many send.
func TestExpressPassQueuesCreditsNotData(t *testing.T) {
	n, _ := incast(t, "expresspass", 16, 400_000)
	last, err := n.Port(17, 0)
	if err != nil {
		t.Fatal(err)
	}
	if last.MaxQueueBytes > 16*1082 {
		t.Errorf("%d bytes of data queued, more than a packet of each sender", last.MaxQueueBytes)
	}
	if n.Drops[sim.DropCredit] == 0 {
		t.Error("no credit was dropped")
	}
	if n.DataDrops != [len(n.DataDrops)]uint64{} {
		t.Errorf("data packets dropped: %v", n.DataDrops)
	}
}
