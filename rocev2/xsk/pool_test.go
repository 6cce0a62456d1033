// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// Whatever owner and kernel do, in whatever order: no frame is in two hands, a
// packet's bytes stay while it is lent, and none is lost.
func TestFramesHaveOneOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := layout{
			frameSize: 512, rxFrames: rapid.IntRange(1, 40).Draw(t, "rxFrames"),
			slots: rapid.IntRange(1, 20).Draw(t, "slots"), slotFrames: rapid.IntRange(1, 3).Draw(t, "slotFrames"),
		}
		l.rxReserve = rapid.IntRange(0, l.rxFrames/2).Draw(t, "rxReserve")
		// Near the end of the indices, which wrap around.
		s := fakeSocket(l, rapid.SampledFrom([]uint32{0, 1<<32 - 7, 1<<32 - 1}).Draw(t, "start"))
		k := newFakeKernel(s, l, t.Fatalf)
		batches := []*Batch{s.NewBatch(1), s.NewBatch(64)}
		var held [2][]byte // what the packets of a batch were when they came
		expect := func(b int, i int) {
			p := batches[b].Packet(i)
			for j := range p.Segments() {
				for _, c := range p.Segment(j) {
					if c != held[b][i] {
						t.Fatalf("packet %d of batch %d changed while it was lent: %#x, was %#x", i, b, c, held[b][i])
					}
				}
			}
		}
		var nextIn byte
		var built, sent int

		t.Repeat(map[string]func(*rapid.T){
			"kernel shows what it took":   func(*rapid.T) { k.show() },
			"kernel takes frames to fill": func(t *rapid.T) { k.takeFill(rapid.IntRange(1, 40).Draw(t, "n")) },
			"kernel delivers":             func(t *rapid.T) { k.deliver(rapid.IntRange(1, min(5, l.rxFrames)).Draw(t, "segments"), true) },
			"receive": func(t *rapid.T) {
				b := rapid.IntRange(0, 1).Draw(t, "batch")
				if batches[b].Len() > 0 {
					t.Skip("held")
				}
				for i := range s.Receive(batches[b]) {
					nextIn++
					if got := batches[b].Packet(i).Data()[0]; got != nextIn {
						t.Fatalf("packet %d came where %d was due", got, nextIn)
					}
					for j := range batches[b].Packet(i).Segments() {
						if k.mine[batches[b].Packet(i).descs()[j].Addr/512*512] {
							t.Fatal("a received frame is still the kernel's")
						}
					}
					held[b] = append(held[b], nextIn)
				}
			},
			"release": func(t *rapid.T) {
				b := rapid.IntRange(0, 1).Draw(t, "batch")
				batches[b].Release()
				held[b] = nil
			},
			"build": func(t *rapid.T) {
				n := rapid.IntRange(1, 5).Draw(t, "n")
				can := s.Reserve(n)
				for range can {
					buf := s.Frame()
					if buf == nil {
						t.Fatalf("no frame, and %d were promised", can)
					}
					size := rapid.IntRange(1, len(buf)).Draw(t, "size")
					built++
					for i := range buf[:size] {
						buf[i] = byte(built)
					}
					s.Push(size)
				}
			},
			"submit": func(t *rapid.T) { s.Submit() },
			"kernel takes to send": func(t *rapid.T) {
				for _, p := range k.takeTx(len(s.tx.entries)) {
					sent++
					for _, c := range p {
						if c != byte(sent) {
							t.Fatalf("packet %d left with a byte of %d", sent, c)
						}
					}
				}
			},
			"kernel completes": func(t *rapid.T) {
				for _, i := range rapid.SliceOfN(rapid.IntRange(0, 100), 1, 20).Draw(t, "which") {
					k.complete(i)
				}
			},
			"": func(t *rapid.T) {
				lentRx := 0
				for b := range batches {
					for i := range batches[b].Len() {
						expect(b, i)
						lentRx += batches[b].Packet(i).Segments()
					}
				}
				onRing := int(s.fill.prod.Load() - k.fillNext)
				waiting := int(s.rx.prod.Load() - s.rx.cons.Load())
				reserve := len(s.reserve.frames)
				if all := lentRx + onRing + waiting + len(k.rx) + reserve; all != l.rxFrames {
					t.Fatalf("%d receive frames of %d: %d lent, %d to fill, %d received, %d the kernel's, %d in reserve", all, l.rxFrames, lentRx, onRing, waiting, len(k.rx), reserve)
				}
				if int(s.rxPool.out) != lentRx || reserve > l.rxReserve {
					t.Fatalf("%d frames count as lent, and %d are; %d in a reserve of %d", s.rxPool.out, lentRx, reserve, l.rxReserve)
				}
				if n := s.tx.next - s.tx.cons.Load(); int(n) > len(s.tx.entries) {
					t.Fatalf("%d entries on the tx ring of %d that the kernel has not released", n, len(s.tx.entries))
				}
				if s.bad.Load() != 0 {
					t.Fatal("a good descriptor was called bad")
				}
			},
		})
		// Nothing has leaked: after all is completed every slot is free.
		s.Submit()
		k.takeTx(len(s.tx.entries))
		for len(k.tx) > 0 {
			k.complete(0)
		}
		k.show()
		if n := s.InFlight(); n != 0 || s.Reserve(l.slots) != l.slots {
			t.Fatalf("%d of %d slots are lost", n, l.slots)
		}
	})
}

// A packet whose frames the kernel shows one by one is received when it is whole.
func TestReceiveWholePackets(t *testing.T) {
	l := layout{frameSize: 512, rxFrames: 8, slots: 1, slotFrames: 1}
	s := fakeSocket(l, 0)
	k := newFakeKernel(s, l, t.Fatalf)
	b := s.NewBatch(1)
	k.takeFill(8)
	k.deliver(1, true)
	k.deliver(1, false)
	if n := s.Receive(b); n != 1 {
		t.Fatalf("%d packets", n)
	}
	b.Release()
	if n := s.Receive(b); n != 0 {
		t.Fatalf("half a packet counts as %d", n)
	}
	k.deliver(1, true)
	if n := s.Receive(b); n != 1 || b.Packet(0).Segments() != 2 || b.Packet(0).Len() != 512 {
		t.Fatalf("%d packets", n)
	}
	if got := b.Packet(0).Linear(make([]byte, 511)); got != nil {
		t.Error("a packet in a scratch buffer that is too short")
	}
	if got := b.Packet(0).Linear(make([]byte, 512)); len(got) != 512 || got[0] != 2 || got[256] != 3 {
		t.Errorf("linear: %v", got)
	}
}

// A kernel that hands over what it does not own loses the packet, not the memory.
func TestReceiveForeignFrames(t *testing.T) {
	l := layout{frameSize: 512, rxFrames: 4, slots: 4, slotFrames: 1}
	good := unix.XDPDesc{Addr: headroom, Len: 64}
	other := unix.XDPDesc{Addr: 512 + headroom, Len: 64}
	contd := func(d unix.XDPDesc) unix.XDPDesc { d.Options = unix.XDP_PKT_CONTD; return d }
	for name, c := range map[string]struct {
		in   []unix.XDPDesc
		want int
	}{
		"a transmit frame":            {[]unix.XDPDesc{{Addr: 4 * 512, Len: 64}, good}, 1},
		"no frame at all":             {[]unix.XDPDesc{{Addr: 1 << 60, Len: 64}, good}, 1},
		"beyond the frame's end":      {[]unix.XDPDesc{{Addr: 512 + headroom, Len: 257}, good}, 1},
		"the same twice":              {[]unix.XDPDesc{good, good, other}, 2},
		"the same in a packet":        {[]unix.XDPDesc{contd(good), good, other}, 1},
		"the bad one first in packet": {[]unix.XDPDesc{contd(unix.XDPDesc{Addr: 1 << 60, Len: 64}), good, other}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakeSocket(l, 0)
			next := uint32(0)
			kernelTake(&s.fill.shared, &next, l.rxFrames)
			for _, d := range c.in {
				kernelPut(&s.rx.shared, d)
			}
			b := s.NewBatch(1)
			if n := s.Receive(b); n != c.want {
				t.Errorf("%d packets, want %d", n, c.want)
			}
			if n := s.bad.Load(); n != 1 {
				t.Errorf("counted %d", n)
			}
			b.Release()
			seen := map[uint64]bool{}
			for _, addr := range kernelTake(&s.fill.shared, &next, 100) {
				if seen[addr] || addr >= uint64(l.txBase()) {
					t.Errorf("frame %#x went back twice, or was none", addr)
				}
				seen[addr] = true
			}
		})
	}
}

// What a caller may do wrong is told at once.
func TestMisuse(t *testing.T) {
	l := layout{frameSize: 512, rxFrames: 4, slots: 2, slotFrames: 2}
	mustPanic := func(what string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", what)
			}
		}()
		f()
	}
	s, other := fakeSocket(l, 0), fakeSocket(l, 0)
	k := newFakeKernel(s, l, t.Fatalf)
	k.takeFill(4)
	k.deliver(1, true)
	b := s.NewBatch(1)
	s.Receive(b)
	p := b.Packet(0)
	kept := p.Data()
	mustPanic("receive into a held batch", func() { s.Receive(b) })
	mustPanic("receive into another's batch", func() { other.Receive(b) })
	b.Release()
	mustPanic("data after release", func() { p.Data() })
	mustPanic("metadata after release", func() { p.Meta() })
	mustPanic("length after release", func() { p.Len() })
	mustPanic("copy after release", func() { p.Linear(nil) })
	mustPanic("packet after release", func() { b.Packet(0) })
	if poisoned && !isPoisoned(kept) {
		t.Error("the bytes of a released packet can still be read")
	}
	k.deliver(1, true)
	s.Receive(b)
	mustPanic("data after release and receive", func() { p.Data() })

	mustPanic("push without a frame", func() { s.Push(10) })
	buf := s.Frame()
	if len(buf) != 1024 {
		t.Errorf("a frame of %d bytes", len(buf))
	}
	if again := s.Frame(); &again[0] != &buf[0] {
		t.Error("two frames are lent")
	}
	for _, n := range []int{-1, 0, 1025} {
		mustPanic(fmt.Sprint("push of ", n), func() { s.Push(n) })
	}
	s.Push(1024)
	s.Submit()
	k.takeTx(2)
	k.complete(0)
	if n := s.InFlight(); n != 1 {
		t.Errorf("half completed: %d in flight", n)
	}
	k.complete(0)
	if n := s.InFlight(); n != 0 {
		t.Errorf("completed: %d in flight", n)
	}
	if poisoned {
		buf[5] = 1
		mustPanic("frame that was written to after its completion", func() { s.Frame(); s.Push(1); s.Frame() })
	}
}

// The kernel does not tell whether there is metadata in front of a packet: what was
// there before must be gone.
func TestStaleMetadata(t *testing.T) {
	l := layout{frameSize: 2048, rxFrames: 4, slots: 1, slotFrames: 1}
	s := fakeSocket(l, 0)
	k := newFakeKernel(s, l, t.Fatalf)
	b := s.NewBatch(1)
	for round := range 3 {
		k.takeFill(4)
		addr := k.rx[0] + headroom
		with := round == 0
		if with {
			copy(s.umem[addr-MetaLen:addr], "metadata")
		}
		k.deliver(1, true)
		if s.Receive(b) != 1 {
			t.Fatal("no packet")
		}
		m := b.Packet(0).Meta()
		if len(m) != MetaLen || with != (string(m[:8]) == "metadata") {
			t.Errorf("round %d: metadata %q", round, m)
		}
		b.Release()
		// All four frames are used in turn: make the next round use this one again.
		for range l.rxFrames - 1 {
			k.takeFill(4)
			k.deliver(1, true)
			s.Receive(b)
			b.Release()
		}
	}
}
