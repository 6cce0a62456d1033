// SPDX-License-Identifier: Apache-2.0

package ooo

import "github.com/softroce/softroce-xdp/rocev2"

// psnWindow holds which packets have arrived: all before base, and those whose bit is set. Each
// PSN is accepted once, so a late duplicate never changes memory (S3.5). That is sure as long as
// no duplicate is delayed by 2^24 - 2*size packets or more.
type psnWindow struct {
	bits  []uint64
	base  rocev2.PSN // the first that has not arrived
	count int        // bits set, all after base
}

// psnClass is where a PSN lies.
type psnClass uint8

const (
	psnNew       psnClass = iota
	psnDuplicate          // has arrived, and its source may still wait for the answer
	psnStale              // so old that its source has the answer
	psnBeyond             // after the window
)

func newPSNWindow(size int, first rocev2.PSN) psnWindow {
	return psnWindow{bits: make([]uint64, size/64), base: first}
}

func (w *psnWindow) size() int { return 64 * len(w.bits) }

func (w *psnWindow) classify(p rocev2.PSN) psnClass {
	switch d := p.Diff(w.base); {
	case d >= w.size():
		return psnBeyond
	case d < -w.size():
		return psnStale
	case d < 0 || *w.word(p)>>(p%64)&1 != 0:
		return psnDuplicate
	}
	return psnNew
}

// add notes the arrival of p, which must be new.
func (w *psnWindow) add(p rocev2.PSN) {
	*w.word(p) |= 1 << (p % 64)
	w.count++
	for *w.word(w.base)>>(w.base%64)&1 != 0 {
		*w.word(w.base) &^= 1 << (w.base % 64)
		w.base = w.base.Add(1)
		w.count--
	}
}

func (w *psnWindow) word(p rocev2.PSN) *uint64 { return &w.bits[int(p/64)%len(w.bits)] }

// around returns the arrivals of the 64 PSNs from the multiple of 64 at or before p.
func (w *psnWindow) around(p rocev2.PSN) (from rocev2.PSN, arrived uint64) {
	from = p &^ 63
	d := from.Diff(w.base)
	arrived = *w.word(from)
	switch {
	case d <= -64:
		arrived = ^uint64(0)
	case d < 0: // the low bits of the word belong to the end of the window, if at all
		below := uint64(1)<<-d - 1
		arrived |= below
	case d >= w.size():
		arrived = 0
	case d > w.size()-64: // and the high bits to its start
		arrived &= uint64(1)<<(w.size()-d) - 1
	}
	return from, arrived
}
