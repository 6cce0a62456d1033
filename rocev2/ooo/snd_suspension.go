// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// messageStatus is the state of a message in the suspension buffer.
type messageStatus uint8

const (
	messageFree      messageStatus = iota
	messageSending                 // data remains that is in no packet yet
	messageWaiting                 // all packets are made, not all are answered
	messageNotifying               // all packets are answered; the notification is not acknowledged
)

// message is an entry of the suspension buffer (S3.1): the packet information of one message.
// Which of its packets are answered is noted per packet in the data buffer. So outstanding
// counts packets, and a repeated response does not change it.
type message struct {
	id          uint32
	remaining   uint32 // bytes that are in no packet yet
	source      uint64 // address of the next packet's data: local of a WRITE, remote of a READ
	target      uint64 // address of the next packet's data at the target
	mtu         uint32
	outstanding uint32 // packets that are not answered
	queue       uint32 // notification receive queue
	descriptor  uint64
	status      messageStatus

	result     verbs.Status // success, or why the message fails when nothing is outstanding
	read       bool
	notify     bool
	solicited  bool
	notReady   uint16 // refusals of the notification
	next       uint32 // index of the next packet
	count      uint32 // packets
	length     uint32
	local      uint64 // address of the first byte
	remote     uint64
	lkey, rkey uint32
	wrid       uint64
}

// suspension is the suspension buffer: a ring of messages by id.
type suspension struct {
	ring    []message
	nextID  uint32 // ID of the next message
	sendID  uint32 // ID of the message that is being sent; nextID: none
	oldest  uint32 // id of the oldest entry in use; nextID: none
	pending fifo[uint32]
}

func (b *suspension) init(size int) {
	b.ring = make([]message, size)
	b.pending.limit = size
}

// get returns the message with this id, or nil if it is not outstanding.
func (b *suspension) get(id uint32) *message {
	m := &b.ring[id%uint32(len(b.ring))]
	if m.status == messageFree || m.id != id {
		return nil
	}
	return m
}

// packets returns how many packets a message has, at least one.
func packets(length, payload uint32) uint32 {
	if length == 0 {
		return 1
	}
	return (length-1)/payload + 1
}

// post puts a request into the suspension buffer.
func (s *sender) post(r *Request) error {
	b := &s.messages
	count := packets(r.Local.Len, uint32(s.q.cfg.Payload))
	need := verbs.Access(0)
	switch {
	case r.Op != verbs.OpWrite && r.Op != verbs.OpRead, r.Op == verbs.OpRead && r.Notify:
		return ErrOp
	case count > 1<<24:
		return ErrLength
	case b.full():
		return ErrFull
	case r.Op == verbs.OpRead:
		need = verbs.AccessLocalWrite
	}
	if s.q.cfg.Memory.CheckLocal(s.q.cfg.PD, r.Local.LKey, r.Local.Addr, r.Local.Len, need) != 0 {
		return ErrLocal
	}
	m := &b.ring[b.nextID%uint32(len(b.ring))]
	*m = message{
		id: b.nextID, remaining: r.Local.Len, source: r.Local.Addr, target: r.RemoteAddr, status: messageSending,
		mtu: uint32(s.q.cfg.Payload), queue: r.Queue, descriptor: r.Descriptor,
		read: r.Op == verbs.OpRead, notify: r.Notify, solicited: r.Solicited, count: count, length: r.Local.Len,
		local: r.Local.Addr, remote: r.RemoteAddr, lkey: r.Local.LKey, rkey: r.RKey, wrid: r.ID,
	}
	if m.read {
		m.source, m.target = m.target, m.source
	}
	b.nextID++
	return nil
}

// fail ends a message with an error. It completes when its packets in flight are answered, as
// the target may still write them until then.
func (s *sender) fail(m *message, why verbs.Status) {
	if m.result == verbs.StatusSuccess {
		m.result = why
		s.q.cfg.Count.Failed++
	}
	m.remaining = 0
	if m.status == messageSending {
		m.status = messageWaiting
	}
	s.settle(m)
}

// settle moves a message on if nothing of it is outstanding.
func (s *sender) settle(m *message) {
	if m.outstanding != 0 || m.status == messageSending || m.status == messageFree {
		return
	}
	if m.status == messageWaiting && m.notify && m.result == verbs.StatusSuccess {
		m.status = messageNotifying
		s.messages.pending.push(m.id)
		return
	}
	s.complete(m, m.result)
}

// complete removes a message and reports its end.
func (s *sender) complete(m *message, status verbs.Status) {
	b := &s.messages
	m.status = messageFree
	for b.oldest != b.nextID && b.ring[b.oldest%uint32(len(b.ring))].status == messageFree {
		b.oldest++
	}
	if s.q.cfg.Complete == nil {
		return
	}
	c := verbs.Completion{WRID: m.wrid, QPN: s.q.cfg.QPN, Status: status, Op: verbs.OpWrite}
	if m.read {
		c.Op, c.Bytes = verbs.OpRead, m.length
	}
	s.q.cfg.Complete(c)
}

// flush completes all messages, the oldest one with this status.
func (s *sender) flush(first verbs.Status) {
	b := &s.messages
	for id := b.oldest; id != b.nextID; id++ {
		if m := b.get(id); m != nil {
			s.complete(m, first)
			first = verbs.StatusWRFlushed
		}
	}
}

// offset returns where the data of packet index lies in the message, and its length.
func (m *message) offset(index uint32) (off uint64, n uint32) {
	off = uint64(index) * uint64(m.mtu)
	return off, uint32(min(uint64(m.mtu), uint64(m.length)-off))
}

// flags returns the OETH flags of packet index.
func (m *message) flags(index uint32) (f uint8) {
	if index == 0 {
		f = rocev2.OFirst
	}
	if index == m.count-1 {
		f |= rocev2.OLast
	}
	if m.solicited {
		f |= rocev2.OSolicited
	}
	return f
}
