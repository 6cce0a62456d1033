// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// SendLimit returns why NextOn has no packet of data for any rail, or qp.NotLimited. Probes are no data.
func (t *Transport) SendLimit(now qp.Time) qp.SendLimit {
	switch {
	case t.base.State() != verbs.StateRTS:
		return qp.LimitState
	case t.q.rcv.responses.hasReads():
		return qp.NotLimited
	case t.queued == 0:
		return qp.LimitNoWork
	case t.askAt != 0 || !t.isAnnounced(0):
		return qp.LimitHalted
	}
	return t.q.snd.limit(Time(now), t.waiting.len() > 0)
}

// limit returns why next has no packet for any rail, or qp.NotLimited. waiting reports whether there are further
// requests to post.
func (s *sender) limit(now Time, waiting bool) qp.SendLimit {
	m, _ := s.nextMessage()
	switch {
	case s.packets.takeLost() != nil: // has room already
	case m == nil && !waiting:
		return qp.LimitNoWork
	case m == nil && s.messages.full(), !s.packets.hasRoom():
		return qp.LimitLossWindow
	}
	if !s.paths.anyOpen(now) {
		return qp.LimitLossWindow
	}
	return qp.NotLimited
}

// full reports whether as many messages are outstanding as there may be.
func (b *suspension) full() bool { return int(b.nextID-b.oldest) == len(b.ring) }

// anyOpen reports whether a path may have another packet in flight.
func (s *paths) anyOpen(now Time) bool {
	for i := range s.list {
		if p := &s.list[i]; p.open() && !s.resting(now, int(p.rail)) {
			return true
		}
	}
	return false
}

// hasReads reports whether there are responses with data to send.
func (b *responseQueue) hasReads() bool {
	for rail := range b.reads {
		if b.reads[rail].n > 0 {
			return true
		}
	}
	return false
}
