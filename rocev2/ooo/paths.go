// SPDX-License-Identifier: Apache-2.0

package ooo

import "math/rand/v2"

// A path is a UDP source port 0xC000..0xFFFF: switches choose among equal routes by it. Which
// ports share a link is not known. So, as in REPS of Ultra Ethernet, a port whose answer came
// without queueing is used again for a later packet. Other packets choose between two random
// ports. A port that loses its packets is replaced by another one.

const (
	firstPort = 0xC000
	ports     = 1 << 14

	newShare      = 64 // packets that may be in flight at first, on all paths together, before answers
	silentLosses  = 4  // in a row without an answer, after which a path is replaced
	lossUnit      = 1 << 16
	lossTooHigh   = lossUnit / 4 // of the recent packets, if twice the average of all paths
	lossOfQueue   = lossUnit / 8 // of the recent packets; shrinks the window of the path
	lossShift     = 4            // recent: about 2^4 packets
	recycledLimit = 4            // recycled entries for each path
	burstMost     = 16           // new packets of a moment that take the same path
)

// pathRef names a path; it is void after the path was replaced.
type pathRef struct{ index, generation uint8 }

var noPath = pathRef{index: MaxPaths}

// path is one source port.
type path struct {
	rtt        rtt
	newest     Time // send time of the latest packet of this path that is answered
	silence    Time // last loss of a packet of this path while nothing was answered
	head, tail int32
	inFlight   int32
	window     pathWindow
	loss       uint32 // recent share, of lossUnit
	silent     uint8  // losses in a row without an answer
	generation uint8
	proven     bool // an answer came
	port       uint16
	rail       uint8
}

// paths is the set of paths of a queue pair.
type paths struct {
	list   []path
	rails  []railState
	all    rtt
	newest Time   // send time of the latest packet of any path that is answered
	loss   uint32 // recent share of all paths, of lossUnit
	slack  Time   // the least queueing delay that shrinks a window
	rand   rand.PCG
}

func (s *paths) init(c *Config) {
	s.rand.Seed(c.Seed, uint64(c.QPN)<<32|uint64(c.PeerQPN))
	s.slack = c.MinQueueing
	s.list = make([]path, c.Paths)
	s.rails = make([]railState, c.Rails)
	for i := range s.rails {
		s.rails[i].idle.limit = recycledLimit * c.Paths
	}
	for i := range s.list {
		s.list[i] = path{port: s.freePort(), rail: uint8(i % c.Rails), window: pathWindow{size: int32(max(1, newShare/c.Paths)) * windowUnit}, head: -1, tail: -1}
	}
}

// freePort returns a random port that no path has.
func (s *paths) freePort() uint16 {
	port := uint16(s.rand.Uint64() % ports)
	for used := true; used; {
		used = false
		for i := range s.list {
			if s.list[i].port == firstPort|port {
				used = true
				port = (port + 1) % ports
			}
		}
	}
	return firstPort | port
}

func (s *paths) ref(i int) pathRef { return pathRef{uint8(i), s.list[i].generation} }

// get returns the path, or nil if it was replaced.
func (s *paths) get(r pathRef) *path {
	if int(r.index) >= len(s.list) || s.list[r.index].generation != r.generation {
		return nil
	}
	return &s.list[r.index]
}

func (p *path) open() bool { return p.inFlight < p.window.packets() }

// good reports whether the path has had an answer since its latest loss.
func (p *path) good() bool { return p.proven && p.silent == 0 }

// choose returns the path of the next packet of a rail. A retransmission takes another path than avoid
// if possible, and leaves the trial of doubtful paths to new packets. It returns false if no path may
// have another packet in flight.
func (s *paths) choose(now Time, rail int, avoid pathRef) (int, bool) {
	if avoid != noPath && s.anyGood() {
		return s.better(rail, avoid, true)
	}
	if s.resting(now, rail) {
		return 0, false
	}
	i, ok := s.recycled(rail, avoid)
	if !ok {
		i, ok = s.better(rail, avoid, false)
	}
	if ok {
		s.tried(now, rail)
	}
	return i, ok
}

// recycled returns an open path of a rail that was answered without queueing.
func (s *paths) recycled(rail int, avoid pathRef) (int, bool) {
	for idle := &s.rails[rail].idle; idle.n > 0; {
		r := idle.pop()
		if p := s.get(r); p != nil && p.open() && r != avoid {
			return int(r.index), true
		}
	}
	return 0, false
}

// chooseNew returns the path of the next new packet of a rail. Packets that leave at the same moment take
// the same path, as far as its window allows: one OACK answers many of them.
func (s *paths) chooseNew(now Time, rail int) (int, bool) {
	r := &s.rails[rail]
	if r.burstLeft > 0 && now == r.burstAt {
		if p := s.get(r.burst); p != nil && p.open() && !s.resting(now, rail) {
			r.burstLeft--
			return int(r.burst.index), true
		}
	}
	i, ok := s.choose(now, rail, noPath)
	if ok {
		r.burst, r.burstAt, r.burstLeft = s.ref(i), now, burstMost-1
	}
	return i, ok
}

func (s *paths) anyGood() bool {
	for i := range s.list {
		if s.list[i].good() {
			return true
		}
	}
	return false
}

// better returns the better one of two random open paths of a rail.
func (s *paths) better(rail int, avoid pathRef, good bool) (int, bool) {
	a, ok := s.pick(rail, avoid, good)
	if !ok {
		return 0, false
	}
	if b, _ := s.pick(rail, avoid, good); s.load(b) < s.load(a) {
		a = b
	}
	return a, true
}

// pick returns a random open path of a rail, or only a good one.
func (s *paths) pick(rail int, avoid pathRef, good bool) (int, bool) {
	n := len(s.list)
	start := int(s.rand.Uint64() % uint64(n))
	second, found := 0, false
	for i := range n {
		at := (start + i) % n
		switch {
		case int(s.list[at].rail) != rail || !s.list[at].open() || good && !s.list[at].good():
		case s.ref(at) != avoid:
			return at, true
		default:
			second, found = at, true
		}
	}
	return second, found
}

// load compares paths: a packet arrives later on the one with the larger value.
func (s *paths) load(i int) int64 {
	p := &s.list[i]
	t := p.rtt.smoothed
	if p.rtt.samples == 0 {
		t = s.all.smoothed
	}
	return int64(t) * int64(p.inFlight+1)
}

// answered notes that a packet of the path was answered.
func (s *paths) answered(r pathRef) *path {
	p := s.get(r)
	if p != nil {
		p.proven, p.silent = true, 0
		s.rails[p.rail].trials = 0
		p.loss -= p.loss >> lossShift
	}
	s.loss -= s.loss >> (lossShift + 2)
	return p
}

// sample takes the RTT of a packet that was sent at this time on the path and is answered. The
// path is used again if the RTT is not above the average, and no switch has marked the packet.
func (s *paths) sample(now Time, r pathRef, sent Time, congested bool) {
	t := now - sent
	p := s.get(r)
	s.all.sample(t)
	s.newest = max(s.newest, sent)
	if p == nil {
		return
	}
	p.rtt.sample(t)
	p.newest = max(p.newest, sent)
	if base := p.window.sample(now, sent, t, p.rtt.least, s.queueing(&p.rtt), s.all.least+s.queueing(&s.all), congested, p.loss > lossOfQueue); base != 0 {
		s.raise(p, base)
	}
	if !congested && t <= s.all.smoothed {
		s.rails[p.rail].idle.push(r)
	}
}

// raise gives a path another base RTT, and all paths together the least one that is left.
func (s *paths) raise(p *path, base Time) {
	p.rtt.least = base
	s.all.least = base
	for i := range s.list {
		if r := &s.list[i].rtt; r.samples > 0 {
			s.all.least = min(s.all.least, r.least)
		}
	}
}

// enoughSamples is how many RTTs of a path are enough to judge its packets.
const enoughSamples = 4

// estimate returns the RTT of a path, or that of all paths if too little is known of it.
func (s *paths) estimate(p *path) *rtt {
	if p.rtt.samples < enoughSamples {
		return &s.all
	}
	return &p.rtt
}

// queueing returns what a queue may add to the least RTT before windows shrink.
func (s *paths) queueing(r *rtt) Time { return max(r.least/2, s.slack) }

// lost notes the loss of a packet, and reports whether the path has to be replaced. silent means
// that no later packet of the path was answered.
func (s *paths) lost(p *path, silent bool) bool {
	p.loss += (lossUnit - p.loss) >> lossShift
	s.loss += (lossUnit - s.loss) >> (lossShift + 2)
	if silent && p.silent < 255 {
		p.silent++
	}
	switch {
	case len(s.list) == 1:
		return false
	case !p.proven:
		return silent
	}
	return p.silent >= silentLosses || p.loss > lossTooHigh && p.loss > 2*s.loss
}

// replace gives the path another port. It carries one packet until that is answered.
func (s *paths) replace(p *path) {
	port := s.freePort()
	*p = path{port: port, rail: p.rail, window: pathWindow{size: windowUnit}, head: -1, tail: -1, generation: p.generation + 1}
}

// link puts packet k at the end of the list of its path.
func (s *sender) link(i int, k *packet) {
	p := &s.paths.list[i]
	at := s.packets.position(k.psn)
	k.next, k.prev = -1, p.tail
	if p.tail >= 0 {
		s.packets.ring[p.tail].next = at
	} else {
		p.head = at
	}
	p.tail = at
	p.inFlight++
	if !p.open() {
		p.window.used = true
	}
}

// unlink removes packet k, which is in flight, from the list of its path.
func (s *sender) unlink(k *packet) {
	p := &s.paths.list[k.path.index]
	if k.prev >= 0 {
		s.packets.ring[k.prev].next = k.next
	} else {
		p.head = k.next
	}
	if k.next >= 0 {
		s.packets.ring[k.next].prev = k.prev
	} else {
		p.tail = k.prev
	}
	p.inFlight--
}
