// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"fmt"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// The entry of node 4 in the destination table holds the times of S1.5.
func Example() {
	c, err := hwoffload.Open(card.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	node4 := regs.DestOf(c, 4-1)
	node4.SetTxNs(5)
	node4.SetRxNs(3)
	fmt.Println(node4.TxNs(), node4.RxNs(), c.Err())
	// Output: 5 3 <nil>
}
