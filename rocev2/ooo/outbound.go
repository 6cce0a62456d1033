// SPDX-License-Identifier: Apache-2.0

package ooo

import "github.com/softroce/softroce-xdp/rocev2"

// Outbound is one packet to send. The queue pair sets the transport fields and the source port,
// which is the path. The engine sets the addresses and everything else of IP, and the stamp
// option. It keeps one Outbound and uses it for every packet.
//
// The engine reserves PayloadLen bytes after the headers and calls Fill, so data is copied once.
type Outbound struct {
	rocev2.Datagram
	PayloadLen int  // bytes, without pad
	Rail       int  // rail by which it leaves: an interface of several
	Again      bool // a retransmission
	Probe      bool // a retransmission of a packet that may still be answered: no sign of loss

	fields rocev2.OOOFields
	qp     *QP
	read   bool // the payload is that of a READ response
	data   place
}

// place is where the payload comes from.
type place struct {
	addr uint64
	key  uint32
	id   uint32 // the message
	psn  rocev2.PSN
}

func (o *Outbound) begin(q *QP, op rocev2.Opcode, psn rocev2.PSN, port uint16) *rocev2.OOOFields {
	o.Datagram = rocev2.Datagram{Opcode: op, DestQP: q.cfg.PeerQPN, PSN: psn, SrcPort: port, OOO: &o.fields}
	o.PayloadLen, o.Rail, o.Again, o.Probe, o.qp, o.read = 0, 0, false, false, q, false
	return &o.fields
}

// Fill copies the payload to dst, which must be PayloadLen long. False means that the memory is
// not accessible: the packet must not be sent, and the queue pair has handled the error. No other
// method of the queue pair may be called between NextData and Fill.
//
// A packet that the engine cannot send is dropped without a call: it is found lost by time.
func (o *Outbound) Fill(dst []byte) bool {
	switch {
	case len(dst) == 0:
		return true
	case o.read:
		return o.qp.rcv.readMemory(o, dst)
	}
	return o.qp.snd.readMemory(o, dst)
}
