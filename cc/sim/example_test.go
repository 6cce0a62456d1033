// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"log"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim"
)

// Two hosts send 1 MB each to host 0 over a switch, and a window of one bandwidth-delay product is all
// that limits them.
func Example() {
	link := sim.Link{Bps: 100e9, Delay: time.Microsecond}
	const hosts = 3 // numbers 0 to 2; the switch is 3
	t := sim.Topology{Hosts: hosts, Switches: 1}
	for h := range hosts {
		t.Wires = append(t.Wires, sim.Wire{A: h, B: hosts, Link: link})
	}
	n, err := sim.New(sim.Config{Seed: 1}, t, &sim.Fixed{BDP: true})
	if err != nil {
		log.Fatal(err)
	}
	var flows []*sim.Flow
	for h := 1; h < hosts; h++ {
		f, err := n.Add(sim.FlowSpec{Src: h, Dst: 0, Bytes: 1e6})
		if err != nil {
			log.Fatal(err)
		}
		flows = append(flows, f)
	}
	n.Run(10 * time.Millisecond)
	for _, f := range flows {
		fmt.Printf("%.1f times the time of a flow alone\n", f.Slowdown())
	}
	// Output:
	// 2.0 times the time of a flow alone
	// 2.0 times the time of a flow alone
}
