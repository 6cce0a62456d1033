// SPDX-License-Identifier: Apache-2.0

package ooo

import "github.com/softroce/softroce-xdp/rocev2"

// sender is the sending engine of S3.4.
type sender struct {
	q        *QP
	messages suspension
	packets  dataBuffer
	paths    paths
	loss     lossState
	now      Time // time of the last call

	stampOffset Time // offset set by SetStampOffset
}

func (s *sender) init(q *QP) {
	s.q = q
	s.messages.init(q.cfg.Messages)
	s.packets.init(&q.cfg)
	s.paths.init(&q.cfg)
	s.loss.init()
}

// next writes the next packet of a rail: a retransmission, a notification, new data of the oldest message that
// has some, or a probe.
func (s *sender) next(now Time, rail int, o *Outbound) bool {
	s.now = now
	if k := s.packets.takeLost(); k != nil {
		path, ok := s.paths.choose(now, rail, k.path)
		if !ok {
			return false
		}
		s.packets.lost.pop()
		s.send(now, k, path, o)
		return true
	}
	m, kind := s.nextMessage()
	if m == nil || !s.packets.hasRoom() {
		return s.probe(now, rail, o)
	}
	path, ok := s.paths.chooseNew(now, rail)
	if !ok {
		return false
	}
	if kind == packetNotify {
		s.messages.pending.pop()
	}
	k := s.group(m, kind)
	s.send(now, k, path, o)
	s.earnProbes()
	return true
}

// nextMessage returns the message of the next new packet, or nil.
func (s *sender) nextMessage() (*message, packetKind) {
	b := &s.messages
	for b.pending.n > 0 {
		if m := b.get(*b.pending.at(0)); m != nil && m.status == messageNotifying && m.result == 0 {
			return m, packetNotify
		}
		b.pending.pop()
	}
	for b.sendID != b.nextID {
		if m := b.get(b.sendID); m != nil && m.status == messageSending {
			if m.read {
				return m, packetRead
			}
			return m, packetWrite
		}
		b.sendID++
	}
	return nil, 0
}

// group takes the next packet of a message: it gets a PSN, and the packet information moves on.
func (s *sender) group(m *message, kind packetKind) *packet {
	m.outstanding++
	if kind == packetNotify {
		return s.packets.add(kind, m.id, 0)
	}
	k := s.packets.add(kind, m.id, m.next)
	_, n := m.offset(m.next)
	m.next++
	m.remaining -= n
	m.source += uint64(n)
	m.target += uint64(n)
	if m.next == m.count {
		m.status = messageWaiting
	}
	return k
}

// send writes packet k, which leaves now on this path.
func (s *sender) send(now Time, k *packet, path int, o *Outbound) {
	m := s.messages.get(k.id)
	if m.result != 0 {
		k.kind = packetVoid
	}
	again := k.tries > 0
	if k.tries < 255 {
		k.tries++
	}
	k.before, k.pathBefore = k.sent, k.path
	k.sent, k.path = now, s.paths.ref(path)
	k.state = packetInFlight
	s.link(path, k)
	s.write(m, k, s.paths.list[path].port, o)
	o.Again, o.Rail = again, int(s.paths.list[path].rail)
	c := s.q.cfg.Count
	c.SentPackets++
	c.SentBytes += uint64(o.PayloadLen)
	if again {
		c.Resent++
	}
}

// write builds the packet.
func (s *sender) write(m *message, k *packet, port uint16, o *Outbound) {
	if k.kind == packetNotify {
		f := o.begin(s.q, rocev2.OpONotify, k.psn, port)
		f.Notify = rocev2.ONotifyFields{Message: m.id, Queue: m.queue, Descriptor: m.descriptor, Length: m.length}
		if m.solicited {
			f.Notify.Status = rocev2.ONotifySolicited
			o.Solicited = true
		}
		return
	}
	op := rocev2.OpOWrite
	if k.kind == packetRead {
		op = rocev2.OpOReadReq
	}
	f := o.begin(s.q, op, k.psn, port)
	f.OETH = rocev2.OETHFields{Flags: m.flags(k.index), Index: k.index, Message: m.id}
	if k.tries > 1 {
		f.OETH.Flags |= rocev2.ORetry
	}
	if k.kind == packetVoid {
		return
	}
	off, n := m.offset(k.index)
	f.OETH.VA, f.OETH.RKey, f.OETH.Length = m.remote+off, m.rkey, n
	if k.kind == packetWrite {
		o.PayloadLen = int(n)
		o.data = place{addr: m.local + off, key: m.lkey, id: m.id, psn: k.psn}
	}
}
