// SPDX-License-Identifier: Apache-2.0

package nodefile_test

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/softroce/softroce-xdp/loader/nodefile"
)

func ExampleParse() {
	file, err := nodefile.Parse(strings.NewReader(`
nodes:
  - {number: 1, addresses: [10.0.0.1], location: rack 1, level: 1, min: 10M}
  - {number: 2, addresses: [10.0.0.2, "fd00::2"], location: rack 2, max: 2.5G}
`), "nodes.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range file.Nodes {
		fmt.Println(n.Number, n.Location, n.Addresses, n.Min, n.Max)
	}
	fmt.Println(file.CheckMinimums(2, 5_000_000))

	numbers := file.Numbers()
	fmt.Println(numbers.Assign(netip.MustParseAddr("fd00::2")), numbers.Assign(netip.MustParseAddr("10.0.0.9")))
	// Output:
	// 1 rack 1 [10.0.0.1] 10Mbit/s 0bit/s
	// 2 rack 2 [10.0.0.2 fd00::2] 0bit/s 2.5Gbit/s
	// the minimums of all nodes are 10Mbit/s together, and there are 5Mbit/s to share: lower some, or raise --rate or priority-capacity
	// 2 3
}
