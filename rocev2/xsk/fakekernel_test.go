// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// fakeSocket makes a socket with rings in ordinary memory and no descriptor, so that
// a test can play the kernel. start is where all indices begin.
func fakeSocket(l layout, start uint32) *Socket {
	s := &Socket{
		conf: Config{FrameSize: l.frameSize}, mode: Copy, fd: -1, wakeFD: -1,
		umem: make([]byte, l.bytes()), rxPool: newRxPool(l), txPool: newTxPool(l),
	}
	if poisoned {
		poisonFrame(s.umem[l.txBase():])
	}
	s.fill = producer[uint64]{fakeShared[uint64](2*l.rxFrames, start), start, start}
	s.done = consumer[uint64]{fakeShared[uint64](l.slots*l.slotFrames, start), start, start}
	s.rx = consumer[unix.XDPDesc]{fakeShared[unix.XDPDesc](l.rxFrames, start), start, start}
	s.tx = producer[unix.XDPDesc]{fakeShared[unix.XDPDesc](l.slots*l.slotFrames, start), start, start}
	s.fillAll(l)
	return s
}

func fakeShared[T any](n int, start uint32) shared[T] {
	r := shared[T]{prod: new(atomic.Uint32), cons: new(atomic.Uint32), flags: new(atomic.Uint32), entries: make([]T, ringSize(n))}
	r.prod.Store(start)
	r.cons.Store(start)
	return r
}

// fakeKernel is the other side of the rings. It owns a frame from when it takes it
// off the fill or tx ring until it puts it on the rx or completion ring.
type fakeKernel struct {
	s    *Socket
	l    layout
	rx   []uint64 // taken off the fill ring
	tx   []uint64 // taken off the tx ring
	mine map[uint64]bool
	seq  byte
	fail func(format string, args ...any)

	fillNext, txNext uint32 // indices as only the kernel knows them
}

func newFakeKernel(s *Socket, l layout, fail func(string, ...any)) *fakeKernel {
	return &fakeKernel{
		s: s, l: l, mine: map[uint64]bool{}, fail: fail,
		fillNext: s.fill.cons.Load(), txNext: s.tx.cons.Load(),
	}
}

// kernelTake reads up to n entries from next on, and does not show us that yet.
func kernelTake[T any](r *shared[T], next *uint32, n int) (out []T) {
	for ; n > 0 && *next != r.prod.Load(); n-- {
		out = append(out, r.entries[*next&uint32(len(r.entries)-1)])
		*next++
	}
	return out
}

// show publishes what the kernel took. Linux does so after it handed over what it
// made of it: at the end of a burst of packets received, or of a system call.
func (k *fakeKernel) show() {
	k.s.fill.cons.Store(k.fillNext)
	k.s.tx.cons.Store(k.txNext)
}

// kernelPut returns false where the ring is full.
func kernelPut[T any](r *shared[T], v T) bool {
	i := r.prod.Load()
	if i-r.cons.Load() == uint32(len(r.entries)) {
		return false
	}
	r.entries[i&uint32(len(r.entries)-1)] = v
	r.prod.Store(i + 1)
	return true
}

func (k *fakeKernel) own(addr uint64) {
	frame := addr - addr%uint64(k.l.frameSize)
	if k.mine[frame] {
		k.fail("the kernel was given frame %#x twice", frame)
	}
	k.mine[frame] = true
}

func (k *fakeKernel) takeFill(n int) {
	for _, addr := range kernelTake(&k.s.fill.shared, &k.fillNext, n) {
		if addr >= uint64(k.l.txBase()) {
			k.fail("a transmit frame %#x is on the fill ring", addr)
		}
		k.own(addr)
		k.rx = append(k.rx, addr)
	}
}

// deliver receives one packet of n frames, whose every byte is the sequence number.
func (k *fakeKernel) deliver(n int, all bool) {
	if len(k.rx) < n || len(k.s.rx.entries)-int(k.s.rx.prod.Load()-k.s.rx.cons.Load()) < n {
		return
	}
	k.seq++
	for i := range n {
		addr := k.rx[0] + headroom
		d := unix.XDPDesc{Addr: addr, Len: uint32(k.l.frameSize - headroom)}
		if i < n-1 || !all {
			d.Options = unix.XDP_PKT_CONTD
		}
		for j := range k.s.umem[addr : addr+uint64(d.Len)] {
			k.s.umem[addr+uint64(j)] = k.seq
		}
		delete(k.mine, k.rx[0])
		k.rx = k.rx[1:]
		if !kernelPut(&k.s.rx.shared, d) {
			k.fail("the rx ring is full")
		}
	}
	k.s.fill.cons.Store(k.fillNext)
}

func (k *fakeKernel) takeTx(n int) (packets [][]byte) {
	var p []byte
	for _, d := range kernelTake(&k.s.tx.shared, &k.txNext, n) {
		if d.Addr < uint64(k.l.txBase()) {
			k.fail("a receive frame %#x is on the tx ring", d.Addr)
		}
		if d.Addr%uint64(k.l.frameSize)+uint64(d.Len) > uint64(k.l.frameSize) {
			k.fail("descriptor %+v crosses a frame's end", d)
		}
		k.own(d.Addr)
		k.tx = append(k.tx, d.Addr)
		p = append(p, k.s.umem[d.Addr:d.Addr+uint64(d.Len)]...)
		if d.Options == 0 {
			packets, p = append(packets, p), nil
		}
	}
	return packets
}

func (k *fakeKernel) complete(i int) {
	if len(k.tx) == 0 {
		return
	}
	i %= len(k.tx)
	addr := k.tx[i]
	k.tx = append(k.tx[:i], k.tx[i+1:]...)
	delete(k.mine, addr)
	if !kernelPut(&k.s.done.shared, addr) {
		k.fail("the completion ring is full")
	}
}
