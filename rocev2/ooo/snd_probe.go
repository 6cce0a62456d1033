// SPDX-License-Identifier: Apache-2.0

package ooo

// Probes. A source that has nothing else to send, or no window for it because of an old packet, sends a
// packet again on suspicion: when the answer is later than usual, but not yet so late that the packet
// counts as lost (snd_loss.go). Then no later packets reveal the loss, as with the notification, and
// there is room. The tail loss probe of RFC 8985 is the model.
//
// Probes are at most one of probeCost packets, and there are none while nothing at all is answered. An
// original that is answered after its probe is no spurious loss.
const (
	probeCost  = 16 // packets that are sent for each probe
	maxProbes  = 8  // that may be saved up
	probesEach = 3  // of one packet, the second and third after 2 and 4 times the time
)

// mayProbe reports whether this side has nothing else that it may send, and probes left.
func (s *sender) mayProbe() bool {
	l := &s.loss
	if l.credit < probeCost || l.backoff > 0 || l.suspects.n == maxProbes || s.packets.takeLost() != nil {
		return false
	}
	m, _ := s.nextMessage()
	return m == nil || s.packets.stalled()
}

// suspect returns the packet in flight that was sent first on a path, and when it is to be probed. It
// returns nil if that is never.
func (s *sender) suspect(p *path) (*packet, Time) {
	if p.head < 0 {
		return nil, 0
	}
	k, r := &s.packets.ring[p.head], s.paths.estimate(p)
	if k.suspect || k.probes == probesEach || r.samples < enoughSamples {
		return nil, 0
	}
	usual := r.smoothed + max(2*r.variation, s.q.cfg.MinReorder/4)
	return k, k.sent + usual<<k.probes
}

// findSuspects queues the packets that are to be probed.
func (s *sender) findSuspects(now Time) {
	if s.q.ended {
		return
	}
	for i := range s.paths.list {
		if !s.mayProbe() {
			return
		}
		if k, at := s.suspect(&s.paths.list[i]); k != nil && at <= now {
			k.suspect = s.loss.suspects.push(k.psn)
			s.loss.credit -= probeCost
		}
	}
}

// earnProbes counts a packet that is sent for the first time.
func (s *sender) earnProbes() { s.loss.credit = min(s.loss.credit+1, maxProbes*probeCost) }

// probe writes the next probe.
func (s *sender) probe(now Time, rail int, o *Outbound) bool {
	for s.loss.suspects.n > 0 && s.paths.mayRepeat(rail) {
		k := s.packets.get(s.loss.suspects.pop())
		if k == nil || k.state != packetInFlight || !k.suspect {
			continue
		}
		k.suspect = false
		path, ok := s.paths.choose(now, rail, k.path)
		if !ok {
			return false
		}
		k.probes++
		s.unlink(k)
		s.send(now, k, path, o)
		o.Probe = true
		s.q.cfg.Count.Probes++
		return true
	}
	return false
}

// probeAnswered notes that the probe of a packet is answered, and the transmission before it is not.
// If no later packet of that path is answered either, the path has lost a packet. An answer that comes
// after all takes that back (paths.answered).
func (s *sender) probeAnswered(k *packet) {
	if p := s.paths.get(k.pathBefore); p != nil && k.before >= p.newest && s.paths.lost(p, true) {
		s.replace(p)
	}
}
