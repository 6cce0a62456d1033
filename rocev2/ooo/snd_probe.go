// SPDX-License-Identifier: Apache-2.0

package ooo

// While a source has nothing else to send, it sends a packet again on suspicion: when its answer is
// later than usual, but not so late that the packet counts as lost (snd_loss.go). That is a probe,
// as the tail loss probe of RFC 8985. The last packets of a message and its notification have no
// later packets that reveal their loss.
//
// Probes are a small share of the packets, each packet is probed once, and none while nothing is
// answered at all. An original that is answered after its probe does not count as spurious loss.
const (
	probeCost  = 16 // packets for each probe
	maxProbes  = 8  // probes in a row
	probesEach = 3  // of one packet, the second and third after 2 and 4 times that
)

// mayProbe reports whether probes are possible now.
func (s *sender) mayProbe() bool {
	if s.loss.credit < probeCost || s.loss.backoff > 0 || s.loss.suspects.n == maxProbes || s.packets.lost.n > 0 {
		return false
	}
	m, _ := s.nextMessage()
	return m == nil
}

// suspect returns the first packet in flight on a path, if it may be probed.
func (s *sender) suspect(p *path) *packet {
	if p.head < 0 {
		return nil
	}
	k := &s.packets.ring[p.head]
	if k.suspect || k.probes == probesEach || s.paths.all.samples < 4 {
		return nil
	}
	return k
}

// probeAt returns when the first packet of a path is probed.
func (s *sender) probeAt(p *path) Time {
	r := &p.rtt
	if r.samples < 4 {
		r = &s.paths.all
	}
	k := &s.packets.ring[p.head]
	return k.sent + (r.smoothed+max(r.variation, s.q.cfg.MinReorder/4))<<k.probes
}

// findSuspects queues the packets whose probe is due.
func (s *sender) findSuspects(now Time) {
	if !s.mayProbe() {
		return
	}
	for i := range s.paths.list {
		p := &s.paths.list[i]
		if k := s.suspect(p); k != nil && s.probeAt(p) <= now && s.loss.credit >= probeCost && s.loss.suspects.push(k.psn) {
			s.loss.credit -= probeCost
			k.suspect = true
		}
	}
}

// nextProbe returns the next packet to probe, taken out of the list of its path, or nil.
func (s *sender) nextProbe() *packet {
	for s.loss.suspects.n > 0 {
		k := s.packets.get(s.loss.suspects.pop())
		if k != nil && k.state == packetInFlight && k.suspect {
			return k
		}
	}
	return nil
}

// probe writes the next probe.
func (s *sender) probe(now Time, o *Outbound) bool {
	k := s.nextProbe()
	if k == nil {
		return false
	}
	path, ok := s.paths.choose(k.path)
	if !ok {
		return false
	}
	s.unlink(k)
	k.suspect = false
	k.probes++
	s.send(now, k, path, o)
	s.q.cfg.Count.Probes++
	return true
}

// probeAnswered notes that a probe was answered before its original. If no later packet of the path
// of the original was answered either, that counts as a loss of the path. An answer that comes after
// all takes that back.
func (s *sender) probeAnswered(k *packet) {
	if p := s.paths.get(k.pathBefore); p != nil && k.before >= p.newest && s.paths.lost(p, true) {
		s.replace(p)
	}
}
