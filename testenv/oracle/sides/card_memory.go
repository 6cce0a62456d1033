// SPDX-License-Identifier: Apache-2.0

package sides

import (
	"errors"
	"fmt"
	"slices"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

// Pages of card memory for regions.
const (
	pageShift = 12
	pageSize  = 1 << pageShift
	regionVA  = 0x7f00_0000_0000
)

// region is a memory region whose pages lie apart in the DDR.
type region struct {
	*driver.MR
	s     *Side
	space *hwoffload.Space
	pages []uint64
	first int // offset in the first page
	size  int
	group *driver.Group // of its own, or nil
}

// Distribute registers memory with a distribution group of its own.
func (s *Side) Distribute(pd verbs.PD, size int, to []oracle.Destination) (verbs.DM, error) {
	var list []driver.Destination
	for _, x := range to {
		list = append(list, driver.Destination{QP: x.QP.(*driver.QP), VA: x.Addr, RKey: x.RKey})
	}
	g, err := s.dev.NewGroup(list...)
	if err != nil {
		return nil, err
	}
	const offset = 24 // messages and pages do not end together
	m, err := s.register(pd, size, offset, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, g)
	if err != nil {
		return nil, errors.Join(err, g.Free())
	}
	return m, nil
}

// register makes a region of pages in the reverse order of their addresses, so that none follows the
// one before it.
func (s *Side) register(pd verbs.PD, size, offset int, rights verbs.Access, group *driver.Group) (verbs.DM, error) {
	if size < 1 || offset < 0 || offset >= pageSize {
		return nil, fmt.Errorf("a region of %d bytes at %d in a page", size, offset)
	}
	space, err := s.card.Allocator().AllocBank(0, uint64(offset+size), pageSize)
	if err != nil {
		return nil, err
	}
	g := &region{s: s, space: space, first: offset, size: size, group: group}
	if g.pages, err = space.Pages(pageSize); err != nil {
		return nil, err
	}
	slices.Reverse(g.pages)
	g.MR, err = s.dev.RegMR(driver.Spec{
		PD: pd.(*driver.PD).Number(), Access: rights, Pages: g.pages, PageShift: pageShift, First: uint32(offset),
		Len: uint64(size), VA: regionVA + g.pages[0] + uint64(offset), Group: group,
	})
	return g, err
}

// Deregister frees the memory too.
func (g *region) Deregister() error {
	if err := g.MR.Deregister(); err != nil {
		return err
	}
	err := g.space.Free()
	if g.group != nil {
		err = errors.Join(err, g.group.Free())
	}
	return err
}

// access calls do for the pieces of bytes [off, off+n) of the region, and returns n.
func (g *region) access(off, n int, do func(from, to int, at int64) error) (int, error) {
	if off < 0 || n < 0 || n > g.size-off {
		return 0, fmt.Errorf("bytes %d to %d of a region of %d", off, off+n, g.size)
	}
	for from := 0; from < n; {
		place := g.first + off + from
		to := min(n, from+pageSize-place%pageSize)
		if err := do(from, to, int64(g.pages[place/pageSize])+int64(place%pageSize)); err != nil {
			return 0, err
		}
		from = to
	}
	return n, nil
}

// ReadAt implements verbs.DM.
func (g *region) ReadAt(p []byte, off int64) (int, error) {
	return g.access(int(off), len(p), func(from, to int, at int64) error {
		_, err := g.s.card.DDR().ReadAt(p[from:to], at)
		return err
	})
}

// WriteAt implements verbs.DM.
func (g *region) WriteAt(p []byte, off int64) (int, error) {
	return g.access(int(off), len(p), func(from, to int, at int64) error {
		_, err := g.s.card.DDR().WriteAt(p[from:to], at)
		return err
	})
}
