// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Reserve returns how many packets can be built now, as far as n. It collects
// completed ones if there are not enough.
func (s *Socket) Reserve(n int) int {
	if s.closed {
		return 0
	}
	have := s.txPool.available()
	if have < n {
		s.collect()
		have = s.txPool.available()
	}
	if have > n {
		have = n
	}
	per := s.slotFrames()
	if room := int(s.tx.free(uint32(have*per))) / per; have > room {
		have = room
	}
	return have
}

func (s *Socket) slotFrames() int { return int(s.txPool.slotSize / s.txPool.frameSize) }

// Frame lends the memory for one packet, of at least Config.TxPacket bytes and with
// any content, until Push. Without a Push the next call lends the same memory again.
// nil means that all packets are in transmission, or the socket is closed.
func (s *Socket) Frame() []byte {
	if s.txPool.lent < 0 && s.Reserve(1) == 0 || s.closed {
		return nil
	}
	lent := s.txPool.lent >= 0
	addr, _ := s.txPool.lend()
	b := s.umem[addr : addr+s.txPool.slotSize : addr+s.txPool.slotSize]
	if poisoned && !lent && !isPoisoned(b) {
		panic(fmt.Sprintf("xsk: transmit slot %d was written to after its Push", s.txPool.lent))
	}
	return b
}

// Push makes the first n bytes of the lent memory a packet, after those pushed
// before. The kernel sees it after Submit. The memory must not be touched from here
// on. Push panics without a Frame before it, or if n does not fit it.
func (s *Socket) Push(n int) {
	if s.txPool.lent < 0 {
		panic("xsk: Push without a Frame")
	}
	if n <= 0 || n > int(s.txPool.slotSize) {
		panic(fmt.Sprintf("xsk: Push of %d bytes; a packet has 1 to %d", n, s.txPool.slotSize))
	}
	frame := int(s.txPool.frameSize)
	frames := (n + frame - 1) / frame
	addr := s.txPool.push(uint8(frames))
	for ; n > frame; n -= frame {
		s.tx.put(unix.XDPDesc{Addr: addr, Len: uint32(frame), Options: unix.XDP_PKT_CONTD})
		addr += uint64(frame)
	}
	s.tx.put(unix.XDPDesc{Addr: addr, Len: uint32(n)})
}

// Submit shows the kernel all packets that were pushed, which leave with a Kick, and
// returns how many submitted frames it has not taken.
func (s *Socket) Submit() int {
	if s.closed {
		return 0
	}
	s.tx.publish()
	return int(s.tx.pending())
}

// collect takes what the kernel completed.
func (s *Socket) collect() {
	n := s.done.available(1)
	if n == 0 {
		return
	}
	for i := range n {
		slot, done, ok := s.txPool.complete(s.done.at(i))
		if !ok {
			s.bad.Add(1)
		}
		if poisoned && done {
			addr := s.txPool.base + uint64(slot)*s.txPool.slotSize
			poisonFrame(s.umem[addr : addr+s.txPool.slotSize])
		}
	}
	s.done.release(n)
}

// InFlight returns how many packets were pushed and are not completed. Between the
// two their memory is the kernel's.
func (s *Socket) InFlight() int {
	if s.closed {
		return 0
	}
	s.collect()
	return len(s.txPool.frames) - s.txPool.available()
}

// Pending returns how many submitted frames the kernel has not taken.
func (s *Socket) Pending() int {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return 0
	}
	return int(s.tx.pending())
}

// Kick makes the kernel transmit what was submitted before. In copy mode that
// happens here, on the calling CPU, driver included. What the driver does not take
// (its queue is full) stays for the next Kick, which Pending tells. A zero-copy
// driver that is at work anyway is not called. Errors are ErrClosed, ErrDown,
// ErrGone and what else the kernel says.
func (s *Socket) Kick() error {
	_, _, err := s.KickAll()
	return err
}

// KickAll is Kick, and returns how many submitted frames the kernel has not taken, with
// those of meanwhile, and whether it took any.
func (s *Socket) KickAll() (left int, took bool, err error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return 0, false, ErrClosed
	}
	before := s.tx.cons.Load()
	err = s.kick()
	return int(s.tx.pending()), s.tx.cons.Load() != before, err
}

func (s *Socket) kick() error {
	upTo := s.tx.prod.Load()
	for {
		from := s.tx.cons.Load()
		if int32(upTo-from) <= 0 {
			return nil
		}
		if s.mode == ZeroCopy && s.tx.flags.Load()&unix.XDP_RING_NEED_WAKEUP == 0 {
			return nil
		}
		switch errno := kick(s.fd); errno {
		case 0:
			return nil
		case unix.EINTR:
		case unix.EAGAIN, unix.EBUSY, unix.ENOBUFS:
			// EAGAIN: it has moved its share (32 descriptors before Linux 6.17), or can
			// move none. EBUSY: the driver did not accept a packet, which is lost.
			if s.tx.cons.Load() == from {
				return nil
			}
		default:
			return ofDevice(errno)
		}
	}
}
