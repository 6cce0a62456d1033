// SPDX-License-Identifier: Apache-2.0

package sim

// Sizes on the wire. Every frame costs preamble and gap in addition to its bytes.
const (
	preambleGap = 8 + 12
	roceHeaders = 14 + 20 + 8 + 12 + 4 + 4 // Ethernet, IPv4, UDP, BTH, ICRC, FCS
	aethBytes   = 4
	// ControlWireBytes is a CNP, HELLO or scheme's message: 16 bytes of content.
	ControlWireBytes = roceHeaders + 16 + preambleGap
	// CreditWireBytes is a smallest Ethernet frame.
	CreditWireBytes = 64 + preambleGap
	pauseWireBytes  = 64 + preambleGap
)

type pktKind uint8

const (
	kindData pktKind = iota
	kindAck
	kindNak
	kindCNP
	kindMessage
	kindProbe
	kindEcho
	kindPause
)

// Flags of a packet.
const (
	flagCE = 1 << iota
	flagRetransmit
	flagLast
	flagUnscheduled
	flagLost // the wire loses it
	flagIdle
	flagResume // a pause of no time
)

// packet is what every hop touches: one cache line. What only the ends need is
// in its packetMeta.
type packet struct {
	// at is since when it is queued, when its turnaround is over or, on a wire, when
	// next arrives.
	at      tick
	sent    tick  // send time of the data packet that it is, or answers
	next    int32 // next packet in a queue or on the wire
	flow    int32 // noIndex = none
	in      int32 // ingress port at the switch where it is
	psn     uint32
	wire    uint16
	payload uint16
	path    portPath
	hop     uint8 // index of the next hop in path
	onWire  bool
	kind    pktKind
	queue   uint8 // queue at each port, creditClass = the credit queue
	flags   uint8
}

// from is the port that sent the packet last.
func (pk *packet) from() int32 { return int32(pk.path.ports[pk.hop-1]) }

// arrived reports whether the path ends with the link that brought the packet.
func (pk *packet) arrived() bool { return pk.hop == pk.path.links }

// along sets the path of a packet from a host, which is its first link.
func (pk *packet) along(w *portPath) { pk.path, pk.hop = *w, 1 }

// packetMeta is what the ends put into a packet: another cache line.
type packetMeta struct {
	t1, t2, t2out int64 // times of the ends' stamp clocks, ns; t2 and t2out: Bytes and Aux of a message
	sack          [2]uint64
	cum           uint32 // next PSN expected; of a message the Seq
	xmit          uint32 // number of this transmission within the flow
	tag           uint32
	credit        int32
	src, peer     uint16  // hosts: from and to, of control packets
	packets, ce   uint8   // data packets and CE marks since the last ACK
	links         uint8   // number of links that the data packet took
	msg           MsgKind // kind of the message, and fromReceiver
}

const fromReceiver MsgKind = 1 << 7 // to a Control

// newPacket takes a packet from the pool. Only the caller's fields are set.
func (n *Net) newPacket(kind pktKind, flow int32, wire int) int32 {
	id := n.freePkt
	if id >= 0 {
		n.freePkt = n.pkts[id].next
	} else {
		id = int32(len(n.pkts))
		n.extendPool(len(n.pkts) + 1)
	}
	n.livePkts++
	pk := &n.pkts[id]
	*pk = packet{kind: kind, flow: flow, wire: uint16(wire), next: noIndex, in: noIndex}
	return id
}

// extendPool makes the pool size packets large, within its capacity.
func (n *Net) extendPool(size int) {
	n.pkts, n.meta = n.pkts[:size], n.meta[:size]
	if n.needs.INT {
		n.ints = n.ints[:size]
	}
}

// poolPerPort is the packets for each port that the pool has room for at first.
const poolPerPort = 8

// spare is how many packets one event may take without the pool moving under
// those who look at a packet.
const spare = 16

// reserve makes the pool's capacity enough for spare more packets.
func (n *Net) reserve() {
	if cap(n.pkts)-n.livePkts < spare {
		n.growPool(cap(n.pkts) / 2)
	}
}

func (n *Net) growPool(by int) {
	n.pkts, n.meta = grown(n.pkts, by), grown(n.meta, by)
	if n.needs.INT {
		n.ints = grown(n.ints, by)
	}
}

// grown is s with the capacity for so many more, no more.
func grown[T any](s []T, by int) []T {
	return append(hugeSlice[T](cap(s) + by)[:0], s...)
}

func (n *Net) freePacket(id int32) {
	n.pkts[id].next = n.freePkt
	n.freePkt = id
	n.livePkts--
}

// Drop says why a packet was lost.
type Drop uint8

// The reasons.
const (
	DropBuffer      Drop = iota // the switch's buffer or the queue's share was full
	DropUnscheduled             // Needs.DropUnscheduledBytes
	DropCredit                  // the credit queue was full
	DropWire                    // Link.Loss
	DropOrder                   // go-back-N: behind a gap, so the receiver does not want it
	numDrops
)

var dropNames = [numDrops]string{"buffer", "unscheduled", "credit", "wire", "order"}

func (d Drop) String() string { return dropNames[d] }

func (n *Net) drop(id int32, why Drop) {
	n.Drops[why]++
	if n.pkts[id].kind == kindData {
		n.DataDrops[why]++
	}
	n.freePacket(id)
}
