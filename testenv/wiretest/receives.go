// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Receives is an application's supply of receive buffers, for one queue pair or for
// an SRQ. Each buffer is a slot of a region, scattered over several list elements
// with gaps between them that nobody may touch.
type Receives struct {
	Shared bool
	Delay  qp.Time // delay before a buffer is posted (again)
	Left   int     // buffers that may still be posted; negative: any number

	node    *Node
	post    func(*verbs.RecvWR) error
	length  func() int // length of an SRQ, or nil
	region  *Region
	shadow  []byte // expected content of the region
	size    int    // size of a slot
	slots   []slot
	order   []uint64 // WRIDs in the order in which they were posted
	nextID  uint64
	due     []due
	started bool
	buf     []byte
}

type slot struct {
	posted bool
	id     uint64
	sgl    []verbs.SGE
}

type due struct {
	at   qp.Time
	slot int
}

// gap between the list elements of a buffer.
const gap = 24

// maxSGE is the length of the longest list that endpoints post.
const maxSGE = 4

// newReceives makes depth buffers of n bytes each.
func newReceives(node *Node, pd uint32, depth, n int) *Receives {
	r := &Receives{node: node, size: n + maxSGE*gap, slots: make([]slot, depth), Left: -1}
	r.region = node.Mem.Register(pd, depth*r.size, verbs.AccessLocalWrite)
	r.shadow = make([]byte, depth*r.size)
	r.region.Written = r.written
	for i := range r.slots {
		r.cut(i, n)
	}
	return r
}

// cut divides slot i into list elements, differently for each slot.
func (r *Receives) cut(i, n int) {
	parts := 1 + i%maxSGE
	off := i * r.size
	for p := range parts {
		l := n / (parts + 2) * (i % 3) / 2 // short ones first, some empty
		if p == parts-1 {
			l = n
		}
		r.slots[i].sgl = append(r.slots[i].sgl,
			verbs.SGE{Addr: r.region.Addr + uint64(off), Len: uint32(l), LKey: r.region.Key})
		n -= l
		off += l + gap
	}
}

// start has all slots posted, from now on.
func (r *Receives) start() {
	r.started = true
	for i := range r.slots {
		r.later(i)
	}
}

func (r *Receives) later(i int) {
	w := r.node.w
	r.due = append(r.due, due{w.now + r.Delay, i})
	if r.Delay > 0 {
		w.After(r.Delay, r.node.Serve)
	}
}

// work posts what is due.
func (r *Receives) work() {
	for len(r.due) > 0 && r.due[0].at <= r.node.w.now && r.Left != 0 {
		i := r.due[0].slot
		r.due = r.due[1:]
		r.Left--
		s := &r.slots[i]
		r.nextID++
		s.id, s.posted = r.nextID<<16|uint64(i), true
		r.order = append(r.order, s.id)
		if err := r.post(&verbs.RecvWR{ID: s.id, SGL: s.sgl}); err != nil {
			r.node.w.Failf("%s: PostRecv: %v", r.node.Name, err)
			return
		}
	}
}

// written checks that a write goes to a buffer that was posted and not completed.
func (r *Receives) written(qpn uint32, off int, data []byte) {
	s := &r.slots[off/r.size]
	if s.posted && qpn == 0 {
		for _, e := range s.sgl {
			if (span{int(e.Addr - r.region.Addr), int(e.Len)}).holds(off, len(data)) {
				return
			}
		}
	}
	r.node.w.Failf("%s: %d bytes written to receive buffer %d at %d, posted=%v, by packet for QP %d",
		r.node.Name, len(data), off/r.size, off%r.size, s.posted, qpn)
}

// take ends the life of a posted buffer and returns its slot, or -1.
func (r *Receives) take(id uint64) int {
	i := int(id & 0xFFFF)
	if i >= len(r.slots) || !r.slots[i].posted || r.slots[i].id != id {
		r.node.w.Failf("%s: completion of receive %#x, which is not posted", r.node.Name, id)
		return -1
	}
	for at, x := range r.order {
		if x == id {
			if at != 0 && !r.Shared {
				r.node.w.Failf("%s: receive %#x completes before %#x", r.node.Name, id, r.order[0])
				return -1
			}
			r.order = append(r.order[:at], r.order[at+1:]...)
			break
		}
	}
	r.slots[i].posted = false
	return i
}

// read returns the first n bytes of slot i, until it is called again, and takes
// them over as right.
func (r *Receives) read(i, n int) []byte {
	r.buf = r.buf[:0]
	for _, e := range r.slots[i].sgl {
		off := int(e.Addr - r.region.Addr)
		l := min(int(e.Len), n)
		r.buf = append(r.buf, r.region.Data[off:off+l]...)
		copy(r.shadow[off:off+l], r.region.Data[off:])
		n -= l
	}
	return r.buf
}

// check compares what the queue holds with what was posted and not completed.
func (r *Receives) check() {
	if r.length != nil && r.length() != len(r.order) && r.node.w.err == nil {
		r.node.w.Failf("%s: the SRQ holds %d receives, posted and not completed are %d", r.node.Name, r.length(), len(r.order))
	}
}
