// SPDX-License-Identifier: Apache-2.0

package ooo

import "github.com/softroce/softroce-xdp/rocev2"

// packetKind is what a packet of the source asks for.
type packetKind uint8

const (
	packetWrite  packetKind = iota // answered by OACK
	packetRead                     // answered by OREAD_RESP
	packetNotify                   // answered by ONOTIFY_ACK
	packetVoid                     // an empty OWRITE in place of a packet whose message failed
)

// packetState is the state of a packet in the data buffer.
type packetState uint8

const (
	packetFree     packetState = iota
	packetInFlight             // sent, not answered, in the list of its path
	packetLost                 // to be sent again
	packetDeferred             // a refused notification, to be sent again at notBefore
	packetAnswered
)

// packet is an entry of the data buffer.
type packet struct {
	sent, before Time // the latest transmission, and the one before it
	notBefore    Time
	psn          rocev2.PSN
	id           uint32 // message
	index        uint32 // index of the packet in the message
	next, prev   int32  // neighbours in the list of the path, positions in the ring; -1: none
	path         pathRef
	pathBefore   pathRef
	kind         packetKind
	state        packetState
	tries        uint8
	probes       uint8 // probes since the packet was last found lost
	suspect      bool  // a probe of the packet is due
	credited     bool  // the answer counts for its path; see credit
}

// dataBuffer holds the packets that are sent and not all answered, by PSN. The data itself stays
// in the memory of the application until the message completes, and is read again for a
// retransmission.
type dataBuffer struct {
	ring     []packet // a power of two
	una      rocev2.PSN
	next     rocev2.PSN
	limit    rocev2.PSN // the first PSN that the target does not accept yet
	window   int        // window of the target
	open     int        // packets that are not answered
	inFlight int        // the most of these
	lost     fifo[rocev2.PSN]
	deferred []rocev2.PSN
}

func (b *dataBuffer) init(c *Config) {
	size := 1
	for size < c.PeerWindow {
		size *= 2
	}
	b.ring = make([]packet, size)
	b.una, b.next = c.SendPSN, c.SendPSN
	b.window = c.PeerWindow
	b.limit = c.SendPSN.Add(b.window)
	b.inFlight = c.InFlight
	b.lost.limit = 2 * size // a stale entry may precede the one that counts
}

func (b *dataBuffer) position(p rocev2.PSN) int32 { return int32(int(p) & (len(b.ring) - 1)) }

// get returns the packet with this PSN, also if it is answered and not yet overwritten, or nil.
func (b *dataBuffer) get(p rocev2.PSN) *packet {
	k := &b.ring[b.position(p)]
	if k.state == packetFree || k.psn != p {
		return nil
	}
	return k
}

// hasRoom reports whether a new packet may be sent: this side has room, and the target too.
func (b *dataBuffer) hasRoom() bool { return b.open < b.inFlight && !b.stalled() }

// stalled reports whether the oldest packet without an answer keeps new ones from being sent.
func (b *dataBuffer) stalled() bool {
	return b.next.Diff(b.una) >= len(b.ring) || !b.next.Before(b.limit)
}

// add makes the entry of the next PSN; hasRoom must hold.
func (b *dataBuffer) add(kind packetKind, id, index uint32) *packet {
	k := &b.ring[b.position(b.next)]
	*k = packet{psn: b.next, id: id, index: index, kind: kind, next: -1, prev: -1}
	b.next = b.next.Add(1)
	b.open++
	return k
}

// accept notes that the target has all packets before p. A limit never moves back.
func (b *dataBuffer) accept(p rocev2.PSN) {
	if limit := p.Add(b.window); limit.After(b.limit) {
		b.limit = limit
	}
}

// advance moves una over answered packets. The target has them all, whatever it has reported: a
// READ response and a lost OACK report no limit.
func (b *dataBuffer) advance() {
	for b.una != b.next && b.ring[b.position(b.una)].state == packetAnswered {
		b.una = b.una.Add(1)
	}
	b.accept(b.una)
}

// takeLost returns the next packet to retransmit, or nil.
func (b *dataBuffer) takeLost() *packet {
	for b.lost.n > 0 {
		if k := b.get(*b.lost.at(0)); k != nil && k.state == packetLost {
			return k
		}
		b.lost.pop()
	}
	return nil
}

// putLost queues a packet for retransmission. The queue never is full: a packet is queued once
// each time that it is found lost, and stale entries are removed when they reach the front or
// when room is short.
func (b *dataBuffer) putLost(k *packet) {
	k.state, k.probes, k.suspect = packetLost, 0, false
	if b.lost.push(k.psn) {
		return
	}
	kept := fifo[rocev2.PSN]{limit: b.lost.limit}
	for p := b.una; p != b.next; p = p.Add(1) {
		if b.ring[b.position(p)].state == packetLost {
			kept.push(p)
		}
	}
	b.lost = kept
}
