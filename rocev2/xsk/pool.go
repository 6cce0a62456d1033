// SPDX-License-Identifier: Apache-2.0

package xsk

import "fmt"

// rxPool knows which receive frames are lent, so that none is lent or given back
// twice. Frames that are not lent are the kernel's, or in the reserve.
type rxPool struct {
	frameSize uint64
	lent      []bool
	out       uint32 // number of lent frames
}

func newRxPool(l layout) rxPool {
	return rxPool{frameSize: uint64(l.frameSize), lent: make([]bool, l.rxFrames)}
}

// take notes that the kernel handed over the frame that addr lies in. False means
// that it is no receive frame, or lent already.
func (p *rxPool) take(addr uint64, length uint32) bool {
	i, off := addr/p.frameSize, addr%p.frameSize
	if i >= uint64(len(p.lent)) || p.lent[i] || off+uint64(length) > p.frameSize {
		return false
	}
	p.lent[i] = true
	p.out++
	return true
}

// give notes that a lent frame goes back and returns its address.
func (p *rxPool) give(addr uint64) uint64 {
	i := addr / p.frameSize
	if !p.lent[i] {
		panic(fmt.Sprintf("xsk: receive frame %d was given back twice", i))
	}
	p.lent[i] = false
	p.out--
	return i * p.frameSize
}

// txPool holds the slots of transmission. A slot is free, lent to the owner (at most
// one is), or in transmission until the kernel has completed each of its frames.
type txPool struct {
	base, slotSize uint64
	frameSize      uint64
	free           []uint32 // a stack: the slot used last is still in the cache
	frames         []uint8  // number of frames in transmission, by slot
	lent           int      // slot, or -1
}

func newTxPool(l layout) txPool {
	p := txPool{
		base: uint64(l.txBase()), slotSize: uint64(l.slotSize()), frameSize: uint64(l.frameSize),
		free: make([]uint32, l.slots), frames: make([]uint8, l.slots), lent: -1,
	}
	for i := range p.free {
		p.free[i] = uint32(l.slots - 1 - i)
	}
	return p
}

// lend takes a free slot, or the one that is lent already, and returns its address.
func (p *txPool) lend() (addr uint64, ok bool) {
	if p.lent < 0 {
		n := len(p.free)
		if n == 0 {
			return 0, false
		}
		p.lent = int(p.free[n-1])
		p.free = p.free[:n-1]
	}
	return p.base + uint64(p.lent)*p.slotSize, true
}

// push notes that the lent slot leaves as n frames and returns its address.
func (p *txPool) push(n uint8) uint64 {
	slot := p.lent
	p.lent = -1
	p.frames[slot] = n
	return p.base + uint64(slot)*p.slotSize
}

// complete notes that the kernel is done with the frame at addr. done means that the
// slot is free again; false for ok that no such frame was in transmission.
func (p *txPool) complete(addr uint64) (slot uint32, done, ok bool) {
	i := (addr - p.base) / p.slotSize // an address before base becomes huge
	if i >= uint64(len(p.frames)) || p.frames[i] == 0 {
		return 0, false, false
	}
	slot = uint32(i)
	p.frames[slot]--
	if p.frames[slot] > 0 {
		return slot, false, true
	}
	p.free = append(p.free, slot)
	return slot, true, true
}

// available returns how many more slots can be lent.
func (p *txPool) available() int {
	n := len(p.free)
	if p.lent >= 0 {
		n++
	}
	return n
}
