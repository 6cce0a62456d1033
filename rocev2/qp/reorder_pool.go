// SPDX-License-Identifier: Apache-2.0

package qp

// bufferBytes is the size of a pool's buffer: an IP datagram with 4096 bytes of payload
// and the longest headers that fit with it.
const bufferBytes = 4096 + 256

// ReorderPool is the memory for out-of-order packets. Queue pairs of one thread share one,
// which bounds the memory: a packet that finds no buffer is dropped and sent again.
// Buffers are allocated at first use.
//
// Where queue pairs of several peers share a pool, each peer has a share of it (Share). Otherwise a peer that
// leaves gaps would have all buffers, and others would lose a round trip with each loss. Shares bind only while
// buffers are scarce.
type ReorderPool struct {
	buffers   [][]byte
	free      []*reorderBuffer
	allowed   int // buffers that may still be allocated
	allocated int

	// Pool that a share belongs to.
	whole *ReorderPool // nil: this is a whole pool
	inUse int

	// Number of peers of a whole pool.
	peers  int // shares with packets
	queues int // queue pairs with packets
}

// NewReorderPool makes a pool for this many packets, of 4.25 KB each.
func NewReorderPool(packets int) *ReorderPool { return &ReorderPool{allowed: packets} }

// Share returns the share of one peer, which has its buffers from h.
func (h *ReorderPool) Share() *ReorderPool { return &ReorderPool{whole: h.root()} }

func (h *ReorderPool) root() *ReorderPool {
	if h.whole != nil {
		return h.whole
	}
	return h
}

// SetReorderPool has the queue pair buffer packets in another pool, as when its peer is known. No packet is
// buffered yet.
func (q *QP) SetReorderPool(h *ReorderPool) {
	if q.rsp.reorder == nil {
		q.cfg.Reorder = h
	}
}

// reserve is the part of a pool, 1 of so many, that is only for those below their share.
const reserve = 4

// mayTake reports whether a queue pair that has n packets buffered may have one more. While more than the
// reserve is free, it may. Then peer and queue pair must have less than an equal part each. One further peer or
// queue pair is counted: it finds a part of its own free when it comes.
func (h *ReorderPool) mayTake(n int) bool {
	w := h.root()
	packets := w.allowed + w.allocated
	free := w.allowed + len(w.buffers)
	if h == w || free > packets/reserve {
		return free > 0
	}
	peers, queues := w.peers+1, w.queues+1
	if h.inUse == 0 {
		peers++
	}
	if n == 0 {
		queues++
	}
	return free > 0 && h.inUse < max(1, packets/peers) && n < max(1, packets/queues)
}

// buffer returns memory for a packet of a queue pair that has n packets, or nil.
func (h *ReorderPool) buffer(n int) []byte {
	if !h.mayTake(n) {
		return nil
	}
	w := h.root()
	if h != w {
		if h.inUse == 0 {
			w.peers++
		}
		h.inUse++
	}
	if n := len(w.buffers); n != 0 {
		b := w.buffers[n-1]
		w.buffers = w.buffers[:n-1]
		return b
	}
	w.allowed--
	w.allocated++
	return make([]byte, 0, bufferBytes)
}

// InUse returns the number of packets buffered now.
func (h *ReorderPool) InUse() int {
	if h.whole != nil {
		return h.inUse
	}
	return h.allocated - len(h.buffers)
}

func (h *ReorderPool) put(b []byte) {
	w := h.root()
	w.buffers = append(w.buffers, b[:0])
	if h == w {
		return
	}
	if h.inUse--; h.inUse == 0 {
		w.peers--
	}
}

// newReorderBuffer returns what a queue pair has while packets are buffered.
func (h *ReorderPool) newReorderBuffer() *reorderBuffer {
	w := h.root()
	w.queues++
	if n := len(w.free); n != 0 {
		x := w.free[n-1]
		w.free = w.free[:n-1]
		return x
	}
	return new(reorderBuffer)
}

// putReorderBuffer takes it back, without packets.
func (h *ReorderPool) putReorderBuffer(x *reorderBuffer) {
	w := h.root()
	w.queues--
	*x = reorderBuffer{}
	w.free = append(w.free, x)
}
