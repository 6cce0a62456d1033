// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"golang.org/x/sys/unix"
)

// Batch holds received packets until Release. It belongs to the socket that made
// it and to that socket's owner. A socket may have several.
type Batch struct {
	s     *Socket
	descs []unix.XDPDesc // descriptors of the packets, one after the other
	ends  []uint32       // ends of the packets in descs; descs[:ends[len-1]] are lent
	gen   uint32         // number of calls of Release
}

// NewBatch makes a batch for up to n frames: as many packets of one frame, or fewer
// of several. At least one packet of any length fits.
func (s *Socket) NewBatch(n int) *Batch {
	n = max(n, maxSegments)
	return &Batch{s: s, descs: make([]unix.XDPDesc, 0, n), ends: make([]uint32, 0, n)}
}

// Receive takes what has arrived, as much as the batch holds, and returns the number
// of packets. It never blocks. The batch must have been released. A closed socket
// receives nothing.
func (s *Socket) Receive(b *Batch) int {
	if b.s != s {
		panic("xsk: Receive into a batch of another socket")
	}
	if len(b.descs) != 0 {
		panic("xsk: Receive into a batch that was not released")
	}
	if s.closed {
		return 0
	}
	limit := uint32(cap(b.descs))
	n := min(s.rx.available(limit), limit)
	if n == 0 {
		if !s.mustDrive() || drive(s.fd) != 0 {
			return 0
		}
		if n = min(s.rx.available(limit), limit); n == 0 {
			return 0
		}
	}
	s.keepUp(s.rx.seen-s.rx.next, n)
	var whole uint32 // descriptors of complete packets
	for i := range n {
		d := s.rx.at(i)
		b.descs = append(b.descs, d)
		if d.Options&unix.XDP_PKT_CONTD != 0 {
			continue
		}
		whole = i + 1
		if s.claim(b) {
			b.ends = append(b.ends, uint32(len(b.descs)))
		}
	}
	b.descs = b.descs[:b.end()] // the head of a packet whose tail comes later stays
	s.rx.release(whole)
	if s.fill.prod.Load() != s.fill.next { // claim gave frames back, or keepUp the reserve
		s.fill.publish()
	}
	return len(b.ends)
}

// Arrived reports whether Receive might find something. Where it has to make a system
// call to know, it might.
func (s *Socket) Arrived() bool {
	return !s.closed && (s.rx.available(1) > 0 || s.mustDrive())
}

// mustDrive says that nothing arrives unless we make a system call.
func (s *Socket) mustDrive() bool {
	return s.busy > 0 || s.mode == ZeroCopy && s.fill.flags.Load()&unix.XDP_RING_NEED_WAKEUP != 0
}

// end is where the descriptors of complete packets end.
func (b *Batch) end() uint32 {
	if len(b.ends) == 0 {
		return 0
	}
	return b.ends[len(b.ends)-1]
}

// claim takes possession of the last packet's frames. If the kernel had no right to
// hand one of them over, the packet is dropped and counted and its other frames go
// back: better to lose a frame than to give it to two.
func (s *Socket) claim(b *Batch) bool {
	seg := b.descs[b.end():]
	for i := range seg {
		if s.rxPool.take(seg[i].Addr, seg[i].Len) {
			continue
		}
		s.bad.Add(1)
		for _, d := range seg[:i] {
			s.fill.put(s.rxPool.give(d.Addr))
		}
		for _, d := range seg[i+1:] {
			if s.rxPool.take(d.Addr, d.Len) {
				s.fill.put(s.rxPool.give(d.Addr))
			}
		}
		b.descs = b.descs[:b.end()]
		return false
	}
	return true
}

// Len returns the number of packets.
func (b *Batch) Len() int { return len(b.ends) }

// Release gives all frames back to the kernel. Every Packet of the batch, and every
// slice of one, must not be used from here on.
func (b *Batch) Release() {
	s := b.s
	if len(b.descs) > 0 && !s.closed {
		first := true
		for _, d := range b.descs {
			if poisoned {
				base := d.Addr - d.Addr%uint64(s.conf.FrameSize)
				poisonFrame(s.umem[base : base+uint64(s.conf.FrameSize)])
			}
			if first {
				// The kernel does not say whether a packet has metadata: what this one
				// had must not be taken for the next one's.
				clear(s.meta(d.Addr))
			}
			first = d.Options&unix.XDP_PKT_CONTD == 0
			s.giveBack(s.rxPool.give(d.Addr))
		}
		s.fill.publish()
	}
	b.descs, b.ends = b.descs[:0], b.ends[:0]
	b.gen++
}

// meta returns the metadata in front of the data at addr, nil if it starts too near
// to the frame's begin to have any.
func (s *Socket) meta(addr uint64) []byte {
	if addr%uint64(s.conf.FrameSize) < MetaLen {
		return nil
	}
	return s.umem[addr-MetaLen : addr : addr]
}

// Packet is a received Ethernet frame, lent until its batch's Release. A Packet that
// is used afterwards panics.
type Packet struct {
	b          *Batch
	first, end uint32
	gen        uint32
}

// Packet returns packet i of the batch.
func (b *Batch) Packet(i int) Packet {
	p := Packet{b: b, end: b.ends[i], gen: b.gen}
	if i > 0 {
		p.first = b.ends[i-1]
	}
	return p
}

func (p Packet) descs() []unix.XDPDesc {
	if p.gen != p.b.gen {
		panic("xsk: a packet was used after its batch's Release")
	}
	return p.b.descs[p.first:p.end]
}

func (s *Socket) bytes(d unix.XDPDesc) []byte {
	return s.umem[d.Addr : d.Addr+uint64(d.Len) : d.Addr+uint64(d.Len)]
}

// Data returns the packet, or of one that takes several frames the first part.
func (p Packet) Data() []byte { return p.b.s.bytes(p.descs()[0]) }

// Meta returns the MetaLen bytes in front of the packet, where an XDP program's
// data_meta of that length lies; nil where the packet has no room in front. They
// read zero if the program left none (and never moves a packet's start). Programs
// should mark theirs by a magic number.
func (p Packet) Meta() []byte { return p.b.s.meta(p.descs()[0].Addr) }

// Segments returns the number of frames that the packet takes, at least 1.
func (p Packet) Segments() int { return int(p.end - p.first) }

// Segment returns the part of the packet that is in its i-th frame.
func (p Packet) Segment(i int) []byte { return p.b.s.bytes(p.descs()[i]) }

// Len returns the packet's length in bytes.
func (p Packet) Len() int {
	n := 0
	for _, d := range p.descs() {
		n += int(d.Len)
	}
	return n
}

// Linear returns the whole packet as one slice: Data where it takes one frame, else
// a copy in scratch. nil means that scratch is shorter than Len.
func (p Packet) Linear(scratch []byte) []byte {
	if p.end-p.first == 1 {
		return p.Data()
	}
	n := 0
	for _, d := range p.descs() {
		if n+int(d.Len) > len(scratch) {
			return nil
		}
		n += copy(scratch[n:], p.b.s.bytes(d))
	}
	return scratch[:n]
}
