// SPDX-License-Identifier: Apache-2.0

package xsk

// reserve holds receive frames that are not on the fill ring (Config.RxReserve).
//
// The kernel takes frames in the order of the fill ring. So each packet goes to the frame that was
// used longest ago, and the caches must hold all frames on that ring. Fewer frames there cost less
// per packet, but they are also what arrives while the owner is not scheduled. So the reserve is
// on the ring only after the owner has fallen behind.
type reserve struct {
	frames []uint64 // addresses
	size   int      // Config.RxReserve
	hold   int      // number of frames that Release puts here: size, or 0 after the owner fell behind
	behind uint32   // frames received and not released from which on the owner has fallen behind
	calm   uint32   // frames received since it last was
	enough uint32   // number of calm frames that end that
}

func newReserve(l layout) reserve {
	r := reserve{
		size: l.rxReserve, hold: l.rxReserve, behind: max(1, uint32(l.rxFrames-l.rxReserve)/2),
		enough: calmRounds * uint32(l.rxFrames), frames: make([]uint64, 0, l.rxReserve),
	}
	for i := l.rxFrames - l.rxReserve; i < l.rxFrames; i++ {
		r.frames = append(r.frames, uint64(i*l.frameSize))
	}
	return r
}

// calmRounds is how often as many frames as there are must be received, without the owner falling
// behind, until the reserve leaves the fill ring again.
const calmRounds = 16

// fillAll puts the frames of reception on the fill ring, except for the reserve.
func (s *Socket) fillAll(l layout) {
	s.reserve = newReserve(l)
	for i := range l.rxFrames - l.rxReserve {
		s.fill.put(uint64(i * l.frameSize))
	}
	s.fill.publish()
}

// keepUp decides about the reserve, when n frames were received and more may be waiting. Receive
// publishes the fill ring.
func (s *Socket) keepUp(waiting, n uint32) {
	r := &s.reserve
	switch {
	case r.size == 0:
	case waiting+s.rxPool.out >= r.behind:
		r.hold, r.calm = 0, 0
		for _, addr := range r.frames {
			s.fill.put(addr)
		}
		r.frames = r.frames[:0]
	case r.hold == 0:
		if r.calm += n; r.calm >= r.enough {
			r.hold = r.size
		}
	}
}

// giveBack returns a frame that was lent to the kernel, or to the reserve.
func (s *Socket) giveBack(addr uint64) {
	if r := &s.reserve; len(r.frames) < r.hold {
		r.frames = append(r.frames, addr)
		return
	}
	s.fill.put(addr)
}
