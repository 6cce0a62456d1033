// SPDX-License-Identifier: Apache-2.0

package cardside

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/hwoffload/queue"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
	"github.com/softroce/softroce-xdp/testenv/oracle/translate"
)

type domain struct {
	s  *Side
	pd uint32
}

// NewPD allocates a protection domain.
func (s *Side) NewPD(context.Context) (oracle.PD, error) { return domain{s, s.dev.AllocPD()}, nil }

func (d domain) Destroy(context.Context) error { return nil }

// Pages of card memory for regions.
const (
	pageShift = 12
	pageSize  = 1 << pageShift
	regionVA  = 0x7f00_0000_0000
)

// takePages returns n pages of card memory, none of which follows the one before it.
func (s *Side) takePages(n int) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pages) < n {
		s.pages = append(s.pages, s.nextPage)
		s.nextPage += pageSize
	}
	at := len(s.pages) - n
	pages := make([]uint64, n)
	for i := range pages {
		pages[i] = s.pages[len(s.pages)-1-i]
	}
	s.pages = s.pages[:at]
	return pages
}

func (s *Side) givePages(pages []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = append(s.pages, pages...)
}

// region is a memory region whose pages lie apart in the DDR.
type region struct {
	s     *Side
	r     *queue.MR
	pages []uint64
	first int // offset in the first page
	size  int
	group *queue.Group // of its own, or nil
}

func (d domain) RegMR(_ context.Context, size, offset int, rights oracle.Access) (oracle.MR, error) {
	return d.register(size, offset, rights, nil)
}

// Distribute registers memory with a distribution group of its own.
func (s *Side) Distribute(_ context.Context, pd oracle.PD, size int, to []oracle.Destination) (oracle.MR, error) {
	var list []queue.Destination
	for _, x := range to {
		list = append(list, queue.Destination{QP: x.QP.(*queuePair).q, VA: x.Addr, RKey: x.RKey})
	}
	g, err := s.dev.NewGroup(list...)
	if err != nil {
		return nil, err
	}
	const offset = 24 // messages and pages do not end together
	m, err := pd.(domain).register(size, offset, oracle.LocalWrite|oracle.RemoteWrite, g)
	if err != nil {
		return nil, errors.Join(err, g.Free())
	}
	return m, nil
}

func (d domain) register(size, offset int, rights oracle.Access, group *queue.Group) (oracle.MR, error) {
	if size < 1 || offset < 0 || offset >= pageSize {
		return nil, fmt.Errorf("a region of %d bytes at %d in a page", size, offset)
	}
	g := &region{s: d.s, pages: d.s.takePages((offset + size + pageSize - 1) / pageSize), first: offset, size: size, group: group}
	var err error
	g.r, err = d.s.dev.RegMR(queue.Spec{
		PD: d.pd, Access: translate.Rights(rights), Pages: g.pages, PageShift: pageShift, First: uint32(offset),
		Len: uint64(size), VA: regionVA + g.pages[0] + uint64(offset), Group: group,
	})
	return g, err
}

func (g *region) Destroy(context.Context) error {
	if err := g.r.Deregister(); err != nil {
		return err
	}
	g.s.givePages(g.pages)
	if g.group != nil {
		return g.group.Free()
	}
	return nil
}

func (g *region) Addr() uint64 { return g.r.VA() }
func (g *region) Len() int     { return g.size }
func (g *region) LKey() uint32 { return g.r.LKey() }
func (g *region) RKey() uint32 { return g.r.RKey() }

// access calls do for the pieces of bytes [off, off+n) of the region.
func (g *region) access(off, n int, do func(from, to int, at int64) error) error {
	if off < 0 || n < 0 || n > g.size-off {
		return fmt.Errorf("bytes %d to %d of a region of %d", off, off+n, g.size)
	}
	for from := 0; from < n; {
		place := g.first + off + from
		to := min(n, from+pageSize-place%pageSize)
		if err := do(from, to, int64(g.pages[place/pageSize])+int64(place%pageSize)); err != nil {
			return err
		}
		from = to
	}
	return nil
}

func (g *region) Peek(_ context.Context, off, n int) ([]byte, error) {
	b := make([]byte, max(n, 0))
	err := g.access(off, n, func(from, to int, at int64) error {
		_, err := g.s.card.DDR().ReadAt(b[from:to], at)
		return err
	})
	return b, err
}

func (g *region) Poke(_ context.Context, off int, data []byte) error {
	return g.access(off, len(data), func(from, to int, at int64) error {
		_, err := g.s.card.DDR().WriteAt(data[from:to], at)
		return err
	})
}

func (g *region) Fill(ctx context.Context, off, n int, seed, skip uint64) error {
	b := make([]byte, max(n, 0))
	oracle.FillPattern(b, seed, skip)
	return g.Poke(ctx, off, b)
}

func (g *region) Check(ctx context.Context, off, n int, seed, skip uint64) (oracle.Mismatch, error) {
	b, err := g.Peek(ctx, off, n)
	if err != nil {
		return oracle.Mismatch{}, err
	}
	return oracle.CheckPattern(b, seed, skip), nil
}

type window struct{ w *queue.MW }

func (d domain) NewMW(context.Context) (oracle.MW, error) {
	w, err := d.s.dev.AllocMW(d.pd)
	return window{w}, err
}

func (w window) RKey() uint32                  { return w.w.RKey() }
func (w window) Destroy(context.Context) error { return w.w.Free() }

// addressHandle is a destination. The card has address handles in the queue pair that sends.
type addressHandle struct {
	s  *Side
	to netip.Addr

	q    *queuePair // the only one that has used it
	made *queue.AH
}

func (d domain) NewAH(_ context.Context, to netip.Addr) (oracle.AH, error) {
	return &addressHandle{s: d.s, to: to}, nil
}

// of makes the handle for a queue pair when first asked for.
func (a *addressHandle) of(q *queuePair) (*queue.AH, error) {
	if a.made != nil && a.q == q {
		return a.made, nil
	}
	src, err := a.s.Addr(a.to.Is6())
	if err != nil {
		return nil, err
	}
	a.q = q
	a.made, err = q.q.CreateAH(verbs.AddressVector{Src: src, Dst: a.to})
	return a.made, err
}

func (a *addressHandle) Destroy(context.Context) error {
	if a.made == nil {
		return nil
	}
	return a.made.Destroy()
}
