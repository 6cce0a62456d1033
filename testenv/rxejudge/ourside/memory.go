// SPDX-License-Identifier: Apache-2.0

package ourside

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/testenv/rxejudge"
)

type domain struct {
	s  *Side
	pd *nic.PD
}

// NewPD allocates a protection domain.
func (s *Side) NewPD(context.Context) (rxejudge.PD, error) {
	pd, err := s.Dev.AllocPD()
	return domain{s, pd}, err
}

func (d domain) Destroy(context.Context) error { return d.pd.Free() }

// rightsOf translates access rights.
func rightsOf(a rxejudge.Access) (m mem.Access) {
	for _, r := range []struct {
		theirs rxejudge.Access
		ours   mem.Access
	}{
		{rxejudge.LocalWrite, mem.LocalWrite}, {rxejudge.RemoteWrite, mem.RemoteWrite}, {rxejudge.RemoteRead, mem.RemoteRead},
		{rxejudge.RemoteAtomic, mem.RemoteAtomic}, {rxejudge.MWBind, mem.BindWindows},
	} {
		if a&r.theirs != 0 {
			m |= r.ours
		}
	}
	return m
}

// region owns pages of its own, so that an access outside it hurts nobody, or is seen.
type region struct {
	r      *mr.Region
	pages  []byte
	memory []byte
}

func (d domain) RegMR(_ context.Context, size, offset int, rights rxejudge.Access) (rxejudge.MR, error) {
	if size < 1 || offset < 0 || offset >= os.Getpagesize() {
		return nil, fmt.Errorf("a region of %d bytes at %d in a page", size, offset)
	}
	pages, err := unix.Mmap(-1, 0, offset+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	g := &region{pages: pages, memory: pages[offset : offset+size]}
	if g.r, err = d.pd.RegMR(g.memory, rightsOf(rights)); err != nil {
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
	rxejudge.FillPattern(b, seed, skip)
	return err
}

func (g *region) Check(_ context.Context, off, n int, seed, skip uint64) (rxejudge.Mismatch, error) {
	b, err := g.part(off, n)
	return rxejudge.CheckPattern(b, seed, skip), err
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

type window struct{ w *mr.Window }

func (d domain) NewMW(context.Context) (rxejudge.MW, error) {
	w, err := d.pd.AllocMW()
	return window{w}, err
}

func (w window) RKey() uint32                  { return w.w.RKey() }
func (w window) Destroy(context.Context) error { return w.w.Free() }

type addressHandle struct{ a *nic.AH }

func (d domain) NewAH(_ context.Context, to netip.Addr) (rxejudge.AH, error) {
	src, err := d.s.Addr(to.Is6())
	if err != nil {
		return nil, err
	}
	a, err := d.s.Dev.CreateAH(d.pd, src, to, nic.Flow{})
	return addressHandle{a}, err
}

func (a addressHandle) Destroy(context.Context) error { return a.a.Destroy() }
