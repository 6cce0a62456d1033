// SPDX-License-Identifier: Apache-2.0

package precredit

// Source has a sender's account at one receiver, the flows that wait for pre-credit, and the
// part of the pre-credit that one round hands out. Sender is built on it.
type Source struct {
	Account
	Queue
	Gradient

	round uint32 // bytes that this round may still hand out
}

// Packet is a packet that got pre-credit.
type Packet struct {
	Flow   *Flow
	Bytes  uint32
	Credit Credit // credit for its stamp
}

// SrcSchedulePrecredit gives pre-credit to the next packet, the highest priority
// first: src_schedule_precredit of S5.5. packet is the payload of a full one. The
// account is charged: the caller sends the packet now. ok is false when nothing waits
// or what waits must go on waiting.
func (s *Source) SrcSchedulePrecredit(now int64, packet uint32) (p Packet, ok bool) {
	f, n := s.Take(s.Ready(now), packet)
	if n == 0 {
		return Packet{}, false
	}
	s.round -= n
	c, _ := s.Spend(now, n)
	return Packet{f, n, c}, true
}

// Ready is how many bytes SrcSchedulePrecredit could give now.
func (s *Source) Ready(now int64) uint32 { return min(s.Usable(now), s.round) }

// NextRound begins a round, usually once per RTT. Flows that still wait age (S5.4). The round
// may hand out the part of the usable pre-credit that SrcFixPrecredit allows, at least that of
// one packet.
func (s *Source) NextRound(now int64, packet uint32) {
	s.Round()
	s.round = max(s.part(s.Usable(now)), packet)
}

// Risen lets this round also hand out the allowed part of the pre-credit that came within it.
// before is what was usable until then, in bytes.
func (s *Source) Risen(now int64, before uint32) {
	if usable := s.Usable(now); usable > before {
		s.round = min(s.round+s.part(usable-before), maxBuffer)
	}
}

// part is the part of n bytes of pre-credit that SrcFixPrecredit allows.
func (s *Source) part(n uint32) uint32 { return uint32(uint64(n) * uint64(s.Part()) >> 10) }

// Gradient is the state of src_fix_precredit: the trend of the RTT. The zero value lets all
// pre-credit be used.
type Gradient struct {
	// held is the part held back, in 1/1024: the zero value holds back nothing.
	held  uint32
	last  int64 // ns, 0 = no sample yet
	base  int64 // base RTT
	trend int64 // smoothed change from ACK to ACK, ns
}

// Base is the base RTT in nanoseconds, which follows a longer route slowly; 0 = none is known.
func (g *Gradient) Base() int64 { return g.base }

// Parameters of the gradient: TIMELY's, in powers of two.
const (
	trendShift = 3   // weight of a sample in the trend: 1/8
	cutQ10     = 819 // 0.8 of the gradient is cut
	addQ10     = 1024 / 16
	partMinQ10 = 1024 / 16
	deadQ10    = 1024 / 64 // a smaller gradient is none
	baseShift  = 10        // the base rises by 1/1024 of the excess with each sample
)

// Part is the part of the pre-credit at hand that may be handed out, in 1/1024, from
// 64 to 1024.
func (g *Gradient) Part() uint32 { return 1024 - g.held }

// SrcFixPrecredit takes the RTT that an ACK measured and adjusts the part of the usable
// pre-credit that a round hands out: src_fix_precredit of S5.5. While RTTs grow, the part
// shrinks in proportion to the gradient, which is the change over the base RTT. Otherwise it
// grows by a sixteenth. It returns the part.
func (g *Gradient) SrcFixPrecredit(rttNs int64) uint32 {
	if rttNs <= 0 {
		return g.Part()
	}
	rttNs = min(rttNs, maxTime)
	if g.last == 0 {
		g.last, g.base = rttNs, rttNs
		return g.Part()
	}
	diff := rttNs - g.last
	g.last = rttNs
	g.base += (rttNs - g.base) >> baseShift // a longer route is no queue for ever
	g.base = max(min(g.base, rttNs), 1)
	g.trend += (diff - g.trend) >> trendShift
	part := g.Part()
	switch gradient := g.trend << 10 / g.base; {
	case gradient > deadQ10:
		cut := uint32(min(uint64(gradient)*cutQ10>>10, 512)) // at most by half
		part -= part * cut >> 10
	default:
		part += addQ10
	}
	g.held = 1024 - min(max(part, partMinQ10), 1024)
	return g.Part()
}
