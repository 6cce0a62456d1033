// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// The reorder buffer. Between softroce engines (Attr.Selective) out-of-order packets are
// buffered and executed in order once the gap is filled. A SACK reports them to the
// requester (rsp_sack.go), which sends only missing packets again. IBTA has no such thing.

// sackWindow is how far after the expected PSN packets are buffered: the bitmap of a SACK.
const sackWindow = 128

// reorderBuffer holds the out-of-order packets of one queue pair, by the low bits of the
// PSN. A queue pair has one only while packets are buffered: n is never 0 between calls.
type reorderBuffer struct {
	slot      [sackWindow][]byte // IP datagrams
	packet    [sackWindow]rocev2.Packet
	psn       [sackWindow]rocev2.PSN
	n         int
	sinceSACK int // packets since the last SACK
}

// has reports whether the packet with this PSN is buffered.
func (h *reorderBuffer) has(psn rocev2.PSN) bool {
	i := psn % sackWindow
	return h.slot[i] != nil && h.psn[i] == psn
}

// buffer stores a packet that is ahead of the expected one. It returns false if it could
// not and nothing else is buffered, so that a NAK must report the gap.
func (r *responder) buffer(p *rocev2.Packet, psn rocev2.PSN, ahead int) bool {
	opened := r.reorder == nil
	if !r.store(p, psn, ahead) && opened {
		return false
	}
	r.reorder.sinceSACK++
	if r.ack.nakActive { // after an RNR NAK the requester waits
		return true
	}
	if opened || r.reorder.sinceSACK >= sackEvery || p.BTH().AckReq() {
		r.ack.ackDue = true
	}
	return true
}

func (r *responder) store(p *rocev2.Packet, psn rocev2.PSN, ahead int) bool {
	if ahead >= sackWindow || len(p.Datagram()) > bufferBytes || r.reorder != nil && r.reorder.has(psn) {
		return false
	}
	pool := r.q.cfg.Reorder
	if pool == nil {
		pool = NewReorderPool(sackWindow)
		r.q.cfg.Reorder = pool
	}
	buffered := 0
	if r.reorder != nil {
		buffered = r.reorder.n
	}
	b := pool.buffer(buffered)
	if b == nil {
		return false
	}
	if r.reorder == nil {
		r.reorder = pool.newReorderBuffer()
	}
	h := r.reorder
	i := psn % sackWindow
	h.packet[i], h.psn[i] = p.Copy(b), psn // what was opened is not parsed again (package seal)
	h.slot[i] = h.packet[i].Frame()
	h.n++
	r.q.cfg.Count.Buffered++
	return true
}

// take removes a packet and returns it with its buffer, or nil.
func (h *reorderBuffer) take(psn rocev2.PSN) ([]byte, *rocev2.Packet) {
	if !h.has(psn) {
		return nil, nil
	}
	i := psn % sackWindow
	b := h.slot[i]
	h.slot[i] = nil
	h.n--
	return b, &h.packet[i]
}

// deliverBuffered executes buffered packets up to the next gap.
func (r *responder) deliverBuffered(now Time) {
	found := false
	for r.reorder != nil {
		was := r.expected
		b, p := r.reorder.take(was)
		if b == nil {
			break
		}
		found = true
		r.deliver(now, p)
		r.q.cfg.Reorder.put(b)
		if r.expected == was { // rejected
			break
		}
	}
	h := r.reorder
	if h == nil {
		return
	}
	h.dropBefore(r.expected, r.q.cfg.Reorder)
	if h.n == 0 {
		r.dropBuffered()
	} else if found {
		r.ack.ackDue = true // the next gap
	}
}

// dropBefore drops packets with PSNs of a READ's responses, which no correct requester
// sends.
func (h *reorderBuffer) dropBefore(psn rocev2.PSN, pool *ReorderPool) {
	for i, b := range h.slot {
		if b != nil && h.psn[i].Before(psn) {
			h.slot[i] = nil
			h.n--
			pool.put(b)
		}
	}
}

// dropBuffered returns all buffers to the pool.
func (r *responder) dropBuffered() {
	h := r.reorder
	if h == nil {
		return
	}
	pool := r.q.cfg.Reorder
	for _, b := range h.slot {
		if b != nil {
			pool.put(b)
		}
	}
	pool.putReorderBuffer(h)
	r.reorder = nil
}
