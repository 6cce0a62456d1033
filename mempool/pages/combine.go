// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/vmm"
)

// entry is a request that is to be started.
type entry struct {
	node.Op
	p     *page
	r     vmm.Request
	alone bool // the entry does not wait for those that follow it
	lost  bool // the slab of the page has ended during the operation
}

// combine makes operations of requests, in their order. Requests that follow each other, and whose pages are next
// to each other in a slab, are one operation. If it fails, each of them has failed.
func (s *Store) combine(list []entry) (ops []node.Op) {
	for len(list) > 0 {
		n := s.length(list)
		op, part := list[0].Op, list[:n:n]
		for _, e := range part[1:] {
			op.More = append(op.More, e.Data)
		}
		op.Done = func(err error) { s.finish(part, err) }
		ops = append(ops, op)
		list = list[n:]
	}
	return ops
}

// length returns how many requests at the start of a list are one operation.
func (s *Store) length(list []entry) int {
	a := list[0]
	most := min(len(list), s.n.MaxParts(), max(1, runBytes/s.c.PageBytes))
	if a.alone {
		most = 1
	}
	for n := 1; n < most; n++ {
		b := list[n]
		if b.alone || b.Write != a.Write || b.Slab != a.Slab || b.Key != a.Key || b.Offset != a.Offset+s.offset(n) {
			return n
		}
	}
	return most
}
