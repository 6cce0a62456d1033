// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim"
)

// The papers' switches share 32 MB, and packets carry 1000 bytes.
const (
	buffer  = 32_000_000
	payload = 1000
)

// clos is a leaf-spine of leaves with perLeaf hosts at 100 Gb/s, and as many
// spines at 400 Gb/s as the leaves' hosts fill. Delays are such that the longest
// round trip is that of the HPCC paper, 12 us without serialisation.
func clos(leaves, perLeaf int) sim.Topology {
	hosts, spines := leaves*perLeaf, perLeaf/4
	t := sim.Topology{
		Name:     fmt.Sprintf("leaf-spine of %d hosts", hosts),
		Hosts:    hosts,
		Switches: leaves + spines,
	}
	for h := range hosts {
		t.Wires = append(t.Wires, sim.Wire{A: h, B: hosts + h/perLeaf, Link: sim.Link{Bps: 100e9, Delay: time.Microsecond}})
	}
	for l := range leaves {
		for s := range spines {
			t.Wires = append(t.Wires, sim.Wire{A: hosts + l, B: hosts + leaves + s, Link: sim.Link{Bps: 400e9, Delay: 2 * time.Microsecond}})
		}
	}
	return t
}

// globalRTT is what the HPCC artefact gives every flow: the longest round trip
// with serialisation.
const globalRTT = "13us"

// star is hosts around one switch, all links alike.
func star(hosts int, bps uint64, delay time.Duration) sim.Topology {
	t := sim.Topology{Name: fmt.Sprintf("star of %d", hosts), Hosts: hosts, Switches: 1}
	for h := range hosts {
		t.Wires = append(t.Wires, sim.Wire{A: h, B: hosts, Link: sim.Link{Bps: bps, Delay: delay}})
	}
	return t
}
