// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"fmt"
	"log"
	"maps"
	"net/netip"
	"slices"

	"github.com/softroce/softroce-xdp/bpf"
)

// The compiled object has the programs; package loader attaches them.
func ExampleLoadSoftroce() {
	spec, err := bpf.LoadSoftroce()
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		fmt.Println(name, spec.Programs[name].Type)
	}
	// Output:
	// softroce_agent_call SchedCLS
	// softroce_egress SchedCLS
	// softroce_engine_sync SchedCLS
	// softroce_ingress XDP
}

// The destination table has an address as its key.
func ExampleKeyOf() {
	fmt.Println(bpf.AddrOf(bpf.KeyOf(netip.MustParseAddr("10.0.0.2"))))
	// Output: 10.0.0.2
}
