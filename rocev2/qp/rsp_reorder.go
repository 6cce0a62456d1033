// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// Between our own engines (attr.Selective) packets beyond a gap are kept and
// executed in order once the gap is filled, and a SACK tells the requester what
// need not come again. This is ours, not IBTA's.

// holdWindow is how far beyond the expected PSN packets are kept: the bitmap of a
// SACK.
const holdWindow = 128

// holdBytes is the size of a pool's buffer: an IP datagram with 4096 bytes of payload
// and the longest headers that fit with it.
const holdBytes = 4096 + 256

// HoldPool lends the memory for packets beyond holes. Queue pairs of one thread share
// one, which bounds what loss can cost: a packet that finds no buffer is dropped
// and sent again. Nothing is allocated before it is needed.
type HoldPool struct {
	buffers [][]byte
	holds   []*hold
	left    int // buffers that may still be made
	made    int
}

// NewHoldPool makes a pool of this many packets, of 4.25 KB each.
func NewHoldPool(packets int) *HoldPool { return &HoldPool{left: packets} }

func (h *HoldPool) buffer() []byte {
	if n := len(h.buffers); n != 0 {
		b := h.buffers[n-1]
		h.buffers = h.buffers[:n-1]
		return b
	}
	if h.left <= 0 {
		return nil
	}
	h.left--
	h.made++
	return make([]byte, 0, holdBytes)
}

// Lent is the number of packets that are kept now.
func (h *HoldPool) Lent() int { return h.made - len(h.buffers) }

func (h *HoldPool) put(b []byte) { h.buffers = append(h.buffers, b[:0]) }

func (h *HoldPool) hold() *hold {
	if n := len(h.holds); n != 0 {
		x := h.holds[n-1]
		h.holds = h.holds[:n-1]
		return x
	}
	return new(hold)
}

// hold is what one queue pair keeps, by the low bits of the PSN. There is one only
// while something is kept, so n is never 0 between calls.
type hold struct {
	slot  [holdWindow][]byte // IP datagrams
	psn   [holdWindow]rocev2.PSN
	n     int
	since int // packets since the last SACK
}

// has reports whether the packet with this PSN is kept.
func (h *hold) has(psn rocev2.PSN) bool {
	i := psn % holdWindow
	return h.slot[i] != nil && h.psn[i] == psn
}

// keep stores a packet that is ahead of the expected one. False: it was not, and
// nothing else is, so that a NAK must tell of the gap.
func (r *responder) keep(p *rocev2.Packet, psn rocev2.PSN, ahead int) bool {
	opened := r.hold == nil
	if !r.store(p, psn, ahead) && opened {
		return false
	}
	r.hold.since++
	if r.ack.refused { // an RNR NAK: the requester knows, and waits
		return true
	}
	if opened || r.hold.since >= sackEvery || p.BTH().AckReq() {
		r.ack.want = true
	}
	return true
}

func (r *responder) store(p *rocev2.Packet, psn rocev2.PSN, ahead int) bool {
	data := p.Datagram()
	if ahead >= holdWindow || len(data) > holdBytes || r.hold != nil && r.hold.has(psn) {
		return false
	}
	pool := r.q.cfg.Held
	if pool == nil {
		pool = NewHoldPool(holdWindow)
		r.q.cfg.Held = pool
	}
	b := pool.buffer()
	if b == nil {
		return false
	}
	if r.hold == nil {
		r.hold = pool.hold()
	}
	h := r.hold
	i := psn % holdWindow
	h.slot[i], h.psn[i] = append(b, data...), psn
	h.n++
	return true
}

// pick takes a packet out, or returns nil.
func (h *hold) pick(psn rocev2.PSN) []byte {
	if !h.has(psn) {
		return nil
	}
	i := psn % holdWindow
	b := h.slot[i]
	h.slot[i] = nil
	h.n--
	return b
}

// release executes what is kept, up to the next gap.
func (r *responder) release(now Time) {
	found := false
	for r.hold != nil {
		was := r.expected
		b := r.hold.pick(was)
		if b == nil {
			break
		}
		found = true
		if p, err := rocev2.ParseIP(b); err == nil {
			r.inTurn(now, &p)
		}
		r.q.cfg.Held.put(b)
		if r.expected == was { // refused
			break
		}
	}
	h := r.hold
	if h == nil {
		return
	}
	h.forgetBefore(r.expected, r.q.cfg.Held)
	if h.n == 0 {
		r.dropHeld()
	} else if found {
		r.ack.want = true // the next gap
	}
}

// forgetBefore drops what a READ has skipped: packets with PSNs of its answer, which
// no requester sends.
func (h *hold) forgetBefore(psn rocev2.PSN, pool *HoldPool) {
	for i, b := range h.slot {
		if b != nil && h.psn[i].Before(psn) {
			h.slot[i] = nil
			h.n--
			pool.put(b)
		}
	}
}

// dropHeld gives everything back.
func (r *responder) dropHeld() {
	h := r.hold
	if h == nil {
		return
	}
	pool := r.q.cfg.Held
	for _, b := range h.slot {
		if b != nil {
			pool.put(b)
		}
	}
	*h = hold{}
	pool.holds = append(pool.holds, h)
	r.hold = nil
}
