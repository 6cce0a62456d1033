// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"fmt"
	"math/bits"
	"net"
	"time"
)

// Mode is how packets get from the driver into UMEM.
type Mode int

// Modes. Auto asks for zero-copy and takes copy where the driver has no other.
const (
	Auto Mode = iota
	Copy
	ZeroCopy
)

// String returns auto, copy or zero-copy.
func (m Mode) String() string {
	switch m {
	case Auto:
		return "auto"
	case Copy:
		return "copy"
	case ZeroCopy:
		return "zero-copy"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

const (
	// MetaLen is how many bytes of metadata a packet may carry in front.
	MetaLen = 32

	// headroom is what the kernel keeps free in front of a received packet
	// (XDP_PACKET_HEADROOM), for metadata and for headers that XDP adds.
	headroom = 256

	// maxSegments is the most frames that one packet takes: the kernel's
	// MAX_SKB_FRAGS and the linear part.
	maxSegments = 18
)

// Config says what to open. The zero value of a field means its default.
type Config struct {
	Ifindex int // index in the network namespace of the calling thread
	Queue   int

	// FrameSize is 2048 or 4096 (default). A frame receives FrameSize-256 bytes.
	FrameSize int

	// RxFrames is how many frames reception has (default 4096): what the kernel may
	// hold back while the owner is busy elsewhere.
	RxFrames int

	// RxReserve is how many of RxFrames the kernel has only after the owner has fallen behind
	// (default 0, at most half). The caches then hold the others, which costs less per packet.
	RxReserve int

	// TxFrames is how many packets may be in transmission (default 1024).
	TxFrames int

	// TxPacket is the longest packet to transmit, in bytes with the Ethernet header;
	// default FrameSize. More than that takes several frames a packet and needs SG.
	// Frame still lends one piece of memory.
	TxPacket int

	Mode Mode

	// SG allows packets of several frames, in both directions (Linux 6.6).
	SG bool

	// BusyPoll makes Receive and Wait drive the driver themselves for that long
	// instead of waiting for its interrupt (Linux 5.11); 0 is off. Socket.BusyPoll
	// tells what is in force.
	BusyPoll time.Duration
}

// layout is the memory of a socket, in frames: first reception, then the slots of
// transmission, each of which is slotFrames frames side by side.
type layout struct {
	frameSize  int
	rxFrames   int
	rxReserve  int
	slots      int
	slotFrames int
}

func (l layout) frames() int   { return l.rxFrames + l.slots*l.slotFrames }
func (l layout) bytes() int    { return l.frames() * l.frameSize }
func (l layout) slotSize() int { return l.slotFrames * l.frameSize }
func (l layout) txBase() int   { return l.rxFrames * l.frameSize }

// withDefaults fills in the defaults and checks what needs no interface.
func (c Config) withDefaults() (Config, layout, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.FrameSize, 4096)
	def(&c.RxFrames, 4096)
	def(&c.TxFrames, 1024)
	def(&c.TxPacket, c.FrameSize)
	fail := func(format string, args ...any) (Config, layout, error) {
		return c, layout{}, fmt.Errorf("xsk: "+format, args...)
	}
	switch {
	case c.Ifindex <= 0:
		return fail("interface index %d: give that of an interface (`ip link`)", c.Ifindex)
	case c.Queue < 0:
		return fail("queue %d: queues count from 0", c.Queue)
	case c.FrameSize != 2048 && c.FrameSize != 4096:
		return fail("frames of %d bytes: the kernel takes 2048 or 4096", c.FrameSize)
	case c.RxFrames < maxFrames/1024 || c.RxFrames > maxFrames:
		return fail("%d receive frames: choose %d to %d", c.RxFrames, maxFrames/1024, maxFrames)
	case c.RxReserve < 0 || c.RxReserve > c.RxFrames/2:
		return fail("a reserve of %d of %d receive frames: choose 0 to half of them", c.RxReserve, c.RxFrames)
	case c.TxFrames < 1 || c.TxFrames > maxFrames:
		return fail("%d transmit frames: choose 1 to %d", c.TxFrames, maxFrames)
	case c.TxPacket < 14 || c.TxPacket > maxSegments*c.FrameSize:
		return fail("packets of %d bytes to transmit: choose 14 to %d", c.TxPacket, maxSegments*c.FrameSize)
	case c.TxPacket > c.FrameSize && !c.SG:
		return fail("packets of %d bytes to transmit do not fit a frame of %d: set SG", c.TxPacket, c.FrameSize)
	case c.Mode < Auto || c.Mode > ZeroCopy:
		return fail("%v: choose Auto, Copy or ZeroCopy", c.Mode)
	case c.BusyPoll < 0 || c.BusyPoll > time.Second:
		return fail("busy poll for %v: choose 0 to 1s", c.BusyPoll)
	}
	l := layout{
		frameSize: c.FrameSize, rxFrames: c.RxFrames, rxReserve: c.RxReserve, slots: c.TxFrames,
		slotFrames: (c.TxPacket + c.FrameSize - 1) / c.FrameSize,
	}
	return c, l, nil
}

// maxFrames bounds the memory of one direction: 2^17 frames are 512 MiB.
const maxFrames = 1 << 17

// checkMTU refuses an interface that may receive more than a frame takes.
func (c Config) checkMTU(i *net.Interface) error {
	longest := i.MTU + 14 + 8 // Ethernet header, two VLAN tags
	if room := c.FrameSize - headroom; longest > room && !c.SG {
		return fmt.Errorf("xsk: %s has MTU %d, its frames do not fit into %d bytes: set SG (Linux 6.6), use larger frames, or lower the MTU to %d",
			i.Name, i.MTU, room, room-14-8)
	}
	return nil
}

// ringSize is the power of two that holds n entries.
func ringSize(n int) uint32 { return 1 << bits.Len(uint(n-1)) }
