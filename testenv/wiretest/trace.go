// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
)

// trace writes a line about a packet that a node sends.
func (p *Path) trace(frame []byte) {
	pkt, err := rocev2.ParseIP(frame)
	if err != nil {
		return
	}
	h := pkt.BTH()
	fmt.Fprintf(p.w.Trace, "%9.3f us to %s QP %d %v PSN %d len %d", float64(p.w.now)/1000, p.to.name(), h.DestQP(), h.Opcode(), h.PSN(), pkt.PayloadLen())
	if h.AckReq() {
		fmt.Fprint(p.w.Trace, " AckReq")
	}
	if a := pkt.AETH(); a != nil {
		fmt.Fprintf(p.w.Trace, " %v %d MSN %d", a.Syndrome(), a.Syndrome().Value(), a.MSN())
	}
	if r := pkt.RETH(); r != nil {
		fmt.Fprintf(p.w.Trace, " VA %#x DMALen %d", r.VA(), r.DMALen())
	}
	if s := pkt.SACK(); s != nil {
		fmt.Fprintf(p.w.Trace, " beyond %x", []byte(s))
	}
	fmt.Fprintln(p.w.Trace)
}
