// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// A model of a card gets two nodes, of which the second is read as a row of the table.
func ExampleTable() {
	m := card.New()
	c, err := hwoffload.Open(m)
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := driver.NewTable(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = t.SetNodes(1, []driver.Node{
		{Number: 1, Addr: netip.MustParseAddr("10.0.0.1")},
		{Number: 4, Addr: netip.MustParseAddr("10.0.0.4"), Port: 2},
	})
	regs.DestOf(c, 4-1).SetTxNs(5)
	rows, err2 := t.Rows()
	fmt.Println(rows[0].Addr, rows[0].Regs.TxNs, t.Port(2).Dests(), err, err2)
	// Output: 10.0.0.4 5 1 <nil> <nil>
}
