// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// Between our own engines (attr.Selective) packets beyond a gap are kept and
// executed in order once the gap is filled, and a SACK tells the requester what
// need not come again. This is ours, not IBTA's.

// reorderWindow is how far beyond the expected PSN packets are kept: the bitmap of a
// SACK.
const reorderWindow = 128

// bufferBytes is the size of a pool's buffer: an IP datagram with 4096 bytes of payload
// and the longest headers that fit with it.
const bufferBytes = 4096 + 256

// HoldPool lends the memory for packets beyond holes. Queue pairs of one thread share
// one, which bounds what loss can cost: a packet that finds no buffer is dropped
// and sent again. Nothing is allocated before it is needed.
type HoldPool struct {
	buffers   [][]byte
	free      []*reorderBuffer
	allowed   int // buffers that may still be made
	allocated int
}

// NewHoldPool makes a pool of this many packets, of 4.25 KB each.
func NewHoldPool(packets int) *HoldPool { return &HoldPool{allowed: packets} }

func (h *HoldPool) buffer() []byte {
	if n := len(h.buffers); n != 0 {
		b := h.buffers[n-1]
		h.buffers = h.buffers[:n-1]
		return b
	}
	if h.allowed <= 0 {
		return nil
	}
	h.allowed--
	h.allocated++
	return make([]byte, 0, bufferBytes)
}

// Lent is the number of packets that are kept now.
func (h *HoldPool) Lent() int { return h.allocated - len(h.buffers) }

func (h *HoldPool) put(b []byte) { h.buffers = append(h.buffers, b[:0]) }

func (h *HoldPool) newReorderBuffer() *reorderBuffer {
	if n := len(h.free); n != 0 {
		x := h.free[n-1]
		h.free = h.free[:n-1]
		return x
	}
	return new(reorderBuffer)
}

// reorderBuffer is what one queue pair keeps, by the low bits of the PSN. There is one only
// while something is kept, so n is never 0 between calls.
type reorderBuffer struct {
	slot      [reorderWindow][]byte // IP datagrams
	psn       [reorderWindow]rocev2.PSN
	n         int
	sinceSACK int // packets since the last SACK
}

// has reports whether the packet with this PSN is kept.
func (h *reorderBuffer) has(psn rocev2.PSN) bool {
	i := psn % reorderWindow
	return h.slot[i] != nil && h.psn[i] == psn
}

// buffer stores a packet that is ahead of the expected one. False: it was not, and
// nothing else is, so that a NAK must tell of the gap.
func (r *responder) buffer(p *rocev2.Packet, psn rocev2.PSN, ahead int) bool {
	opened := r.reorder == nil
	if !r.store(p, psn, ahead) && opened {
		return false
	}
	r.reorder.sinceSACK++
	if r.ack.nakActive { // an RNR NAK: the requester knows, and waits
		return true
	}
	if opened || r.reorder.sinceSACK >= sackEvery || p.BTH().AckReq() {
		r.ack.ackDue = true
	}
	return true
}

func (r *responder) store(p *rocev2.Packet, psn rocev2.PSN, ahead int) bool {
	data := p.Datagram()
	if ahead >= reorderWindow || len(data) > bufferBytes || r.reorder != nil && r.reorder.has(psn) {
		return false
	}
	pool := r.q.cfg.Held
	if pool == nil {
		pool = NewHoldPool(reorderWindow)
		r.q.cfg.Held = pool
	}
	b := pool.buffer()
	if b == nil {
		return false
	}
	if r.reorder == nil {
		r.reorder = pool.newReorderBuffer()
	}
	h := r.reorder
	i := psn % reorderWindow
	h.slot[i], h.psn[i] = append(b, data...), psn
	h.n++
	return true
}

// take takes a packet out, or returns nil.
func (h *reorderBuffer) take(psn rocev2.PSN) []byte {
	if !h.has(psn) {
		return nil
	}
	i := psn % reorderWindow
	b := h.slot[i]
	h.slot[i] = nil
	h.n--
	return b
}

// deliverBuffered executes what is kept, up to the next gap.
func (r *responder) deliverBuffered(now Time) {
	found := false
	for r.reorder != nil {
		was := r.expected
		b := r.reorder.take(was)
		if b == nil {
			break
		}
		found = true
		if p, err := rocev2.ParseIP(b); err == nil {
			r.deliver(now, &p)
		}
		r.q.cfg.Held.put(b)
		if r.expected == was { // refused
			break
		}
	}
	h := r.reorder
	if h == nil {
		return
	}
	h.dropBefore(r.expected, r.q.cfg.Held)
	if h.n == 0 {
		r.dropBuffered()
	} else if found {
		r.ack.ackDue = true // the next gap
	}
}

// dropBefore drops what a READ has skipped: packets with PSNs of its answer, which
// no requester sends.
func (h *reorderBuffer) dropBefore(psn rocev2.PSN, pool *HoldPool) {
	for i, b := range h.slot {
		if b != nil && h.psn[i].Before(psn) {
			h.slot[i] = nil
			h.n--
			pool.put(b)
		}
	}
}

// dropBuffered gives everything back.
func (r *responder) dropBuffered() {
	h := r.reorder
	if h == nil {
		return
	}
	pool := r.q.cfg.Held
	for _, b := range h.slot {
		if b != nil {
			pool.put(b)
		}
	}
	*h = reorderBuffer{}
	pool.free = append(pool.free, h)
	r.reorder = nil
}
