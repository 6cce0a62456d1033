// SPDX-License-Identifier: Apache-2.0

package self

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
	"github.com/softroce/softroce-xdp/testenv/oracle/translate"
)

type domain struct {
	s  *Side
	pd verbs.PD
}

// NewPD allocates a protection domain.
func (s *Side) NewPD(context.Context) (oracle.PD, error) {
	pd, err := s.Dev.AllocPD()
	return domain{s, pd}, err
}

func (d domain) Destroy(context.Context) error { return d.pd.Free() }

// region owns pages of its own, so that an access outside it hurts nobody, or is seen.
type region struct {
	r      verbs.MR
	pages  []byte
	memory []byte
}

func (d domain) RegMR(_ context.Context, size, offset int, rights oracle.Access) (oracle.MR, error) {
	if size < 1 || offset < 0 || offset >= os.Getpagesize() {
		return nil, fmt.Errorf("a region of %d bytes at %d in a page", size, offset)
	}
	pages, err := unix.Mmap(-1, 0, offset+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	g := &region{pages: pages, memory: pages[offset : offset+size]}
	if g.r, err = d.pd.RegMR(g.memory, translate.Rights(rights)); err != nil {
		return nil, errors.Join(err, unix.Munmap(pages))
	}
	return g, nil
}

func (g *region) Destroy(context.Context) error {
	if err := g.r.Deregister(); err != nil {
		return err
	}
	return unix.Munmap(g.pages)
}

func (g *region) Addr() uint64 { return g.r.VA() }
func (g *region) Len() int     { return len(g.memory) }
func (g *region) LKey() uint32 { return g.r.LKey() }
func (g *region) RKey() uint32 { return g.r.RKey() }

func (g *region) part(off, n int) ([]byte, error) {
	if off < 0 || n < 0 || n > len(g.memory)-off {
		return nil, fmt.Errorf("bytes %d to %d of a region of %d", off, off+n, len(g.memory))
	}
	return g.memory[off : off+n], nil
}

func (g *region) Fill(_ context.Context, off, n int, seed, skip uint64) error {
	b, err := g.part(off, n)
	oracle.FillPattern(b, seed, skip)
	return err
}

func (g *region) Check(_ context.Context, off, n int, seed, skip uint64) (oracle.Mismatch, error) {
	b, err := g.part(off, n)
	return oracle.CheckPattern(b, seed, skip), err
}

func (g *region) Peek(_ context.Context, off, n int) ([]byte, error) {
	b, err := g.part(off, n)
	return append([]byte(nil), b...), err
}

func (g *region) Poke(_ context.Context, off int, data []byte) error {
	b, err := g.part(off, len(data))
	copy(b, data)
	return err
}

type window struct{ w verbs.MW }

func (d domain) NewMW(context.Context) (oracle.MW, error) {
	w, err := d.pd.AllocMW()
	return window{w}, err
}

func (w window) RKey() uint32                  { return w.w.RKey() }
func (w window) Destroy(context.Context) error { return w.w.Free() }

type addressHandle struct{ a verbs.AH }

func (d domain) NewAH(_ context.Context, to netip.Addr) (oracle.AH, error) {
	src, err := d.s.Addr(to.Is6())
	if err != nil {
		return nil, err
	}
	a, err := d.pd.CreateAH(verbs.AddressVector{Src: src, Dst: to})
	return addressHandle{a}, err
}

func (a addressHandle) Destroy(context.Context) error { return a.a.Destroy() }
