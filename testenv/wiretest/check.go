// SPDX-License-Identifier: Apache-2.0

package wiretest

// check compares what the core of the node has counted with what a run may count, and fails the wire if it differs.
func (n *Node) check() {
	n.checkDrops()
	n.checkAlarms()
}

// checkDrops requires that the core has dropped no packet that it should have sent or received. The core counts such
// packets as lost: RC repeats them, and UC and UD may lose them, so applications do not find out.
//
// Packets that were damaged on the wire may have a wrong ICRC or length. A node that has restarted may get packets for
// queue pairs that it had before.
func (n *Node) checkDrops() {
	damaged := uint64(0)
	for _, other := range n.w.nodes {
		if p := other.paths[n.Addr]; p != nil {
			damaged += uint64(p.Corrupted)
		}
	}
	count := n.core.Counters()
	for _, c := range count.Drops() {
		most := uint64(0)
		switch c.Name {
		case "rx_icrc_encapsulated", "rx_malformed":
			most = damaged
		case "rx_unknown_qpn":
			if n.restarted {
				continue
			}
		}
		if c.Value > most {
			n.w.Failf("%s: %s = %d, want at most %d (%s)", n.Name, c.Name, c.Value, most, c.Text)
		}
	}
}

// checkAlarms bounds the number of alarms. The port has one for each packet sent, the timers of queue pairs fewer than
// one for each packet. A deadline that does not move with the clock has many more.
func (n *Node) checkAlarms() {
	const perPacket, idle = 2, 100
	if most := perPacket*(n.sent+n.got) + idle; n.alarms > most {
		n.w.Failf("%s: %d alarms for %d packets sent and %d received, want at most %d", n.Name, n.alarms, n.sent, n.got, most)
	}
}
