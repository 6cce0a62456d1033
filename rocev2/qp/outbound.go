// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Outbound is one packet to send. The queue pair sets the transport fields of the
// Datagram that its opcode has. The engine sets the addresses and everything of IP. The
// engine keeps one Outbound and uses it for every packet.
//
// The payload is not in Datagram.Payload: the engine reserves PayloadLen bytes after the
// headers and calls Fill (or Drop). So data is copied once, from memory into the frame.
type Outbound struct {
	rocev2.Datagram
	PayloadLen int      // bytes, without pad
	Again      bool     // a retransmission
	Lost       bool     // a retransmission after a reported loss: not after silence or an RNR NAK
	Missed     uint16   // our lost packets that this packet reveals; 0 for a READ request, whose response was lost
	AH         verbs.AH // UD, otherwise nil
	Rail       uint8    // rail by which it leaves: an interface of several (package ooo)

	source Source // source given to SetSource
	by     mem.Transform
	done   bool // the transform was used

	fill filler
	wqe  uint32 // index of the work request or READ, for the filler
	off  uint32 // offset in its data, bytes
}

// filler is the half of a queue pair that provides a packet's payload.
type filler interface {
	fillPayload(o *Outbound, dst []byte) bool
	dropPayload(o *Outbound)
}

// Fill copies the payload to dst, which must be PayloadLen long. False means that the
// memory behind it is not accessible (any more): the packet must not be sent, and the
// queue pair has already handled the error. No other method of the queue pair may be
// called between NextData and Fill.
func (o *Outbound) Fill(dst []byte) bool {
	return len(dst) == 0 || o.fill.fillPayload(o, dst)
}

// FillBy is Fill with by.Put in the place of the copy: it is called once, also for a packet without payload.
// Where it can, it gets the memory itself, otherwise a copy in dst.
func (o *Outbound) FillBy(dst []byte, by mem.Transform) bool {
	o.by, o.done = by, false
	ok := o.Fill(dst)
	o.by = nil
	if ok && !o.done {
		by.Put(dst, dst)
	}
	return ok
}

// readLocal is m.ReadLocal for a filler whose payload is in one piece.
func (o *Outbound) readLocal(m mem.Memory, pd, lkey uint32, addr uint64, dst []byte) mem.Fault {
	if o.by != nil {
		if t, ok := m.(mem.Transformer); ok {
			o.done = true
			return t.TransformLocal(pd, lkey, addr, dst, o.by)
		}
	}
	return m.ReadLocal(pd, lkey, addr, dst)
}

// readRemote is m.ReadRemote, likewise.
func (o *Outbound) readRemote(m mem.Memory, pd, qpn, rkey uint32, addr uint64, dst []byte) mem.Fault {
	if o.by != nil {
		if t, ok := m.(mem.Transformer); ok {
			o.done = true
			return t.TransformRemote(pd, qpn, rkey, addr, dst, o.by)
		}
	}
	return m.ReadRemote(pd, qpn, rkey, addr, dst)
}

// Drop is called instead of Fill for a packet that the engine cannot send: it has no route
// to the receiver, or no memory. The queue pair treats the packet as sent and lost.
func (o *Outbound) Drop() {
	if o.PayloadLen != 0 {
		o.fill.dropPayload(o)
	}
}

// SetPayload has Fill copy b: for a packet that no queue pair has made.
func (o *Outbound) SetPayload(b []byte) { o.PayloadLen, o.fill = len(b), payload(b) }

// Source provides the payload of a packet of another transport. Fill copies it to dst, or returns
// false: the packet must not be sent.
type Source interface{ Fill(dst []byte) bool }

// SetSource has Fill call s for n bytes of payload.
func (o *Outbound) SetSource(s Source, n int) { o.PayloadLen, o.fill, o.source = n, fromSource{}, s }

// fromSource is the filler of a packet of another transport.
type fromSource struct{}

func (fromSource) fillPayload(o *Outbound, dst []byte) bool { return o.source.Fill(dst) }
func (fromSource) dropPayload(*Outbound)                    {}

// payload is one outside registered memory.
type payload []byte

func (b payload) fillPayload(_ *Outbound, dst []byte) bool {
	copy(dst, b)
	return true
}

func (payload) dropPayload(*Outbound) {}
