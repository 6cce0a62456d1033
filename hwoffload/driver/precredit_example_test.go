// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"fmt"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
)

// A card of a 100 Gbit/s network grants up to 1 MB, a bandwidth-delay product to each node.
func ExampleReadSenders() {
	c, err := hwoffload.Open(card.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := driver.EnablePreCredit(c, driver.PlanPreCredit(100e9, 12_000, 1_000_000, 4096), 0); err != nil {
		fmt.Println(err)
		return
	}
	s, err := driver.ReadSenders(c)
	fmt.Println(len(s.List), "senders,", s.Free, "bytes free,", err)
	// Output: 0 senders, 1000000 bytes free, <nil>
}
