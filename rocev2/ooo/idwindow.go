// SPDX-License-Identifier: Apache-2.0

package ooo

// idWindowSize is the number of message ids, up to the highest one notified, that a target can
// tell apart. A source has fewer outstanding (MaxMessages).
const idWindowSize = 2 * MaxMessages

// idWindow holds which messages have been notified. There is one for each queue pair, and so
// for each source and QPN (S3.5).
type idWindow struct {
	bits [idWindowSize / 64]uint64
	next uint32 // ID after the highest one notified
}

// has reports whether the message was notified. An id from before the window was: its source
// has the acknowledgement.
func (w *idWindow) has(id uint32) bool {
	d := int32(id - w.next)
	return d < 0 && (d < -idWindowSize || w.bits[id%idWindowSize/64]>>(id%64)&1 != 0)
}

// add notes that the message was notified.
func (w *idWindow) add(id uint32) {
	if d := int32(id - w.next); d >= 0 {
		for i := uint32(0); i <= uint32(d) && i < idWindowSize; i++ {
			old := w.next + i
			w.bits[old%idWindowSize/64] &^= 1 << (old % 64)
		}
		w.next = id + 1
	}
	w.bits[id%idWindowSize/64] |= 1 << (id % 64)
}
