// SPDX-License-Identifier: Apache-2.0

package sides

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

// engineRegion owns pages of its own, so that an access outside it hurts nobody, or is seen.
type engineRegion struct {
	r      verbs.MR
	pages  []byte
	memory []byte
}

// register makes and registers memory.
func register(pd verbs.PD, size, offset int, rights verbs.Access) (oracle.MR, error) {
	return allocate(size, offset, func(b []byte) (verbs.MR, error) { return pd.RegMR(b, rights) })
}

// Distribute implements oracle.Hub.
func (s *EngineSide) Distribute(_ context.Context, pd oracle.PD, size int, to []oracle.Destination) (oracle.MR, error) {
	var g mr.Group
	for _, x := range to {
		g = append(g, mr.Destination{QPN: x.QP.QPN(), VA: x.Addr, RKey: x.RKey})
	}
	const offset = 24 // messages and pages do not end together
	return allocate(size, offset, func(b []byte) (verbs.MR, error) {
		spec := mr.Spec{Host: b, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite}
		return pd.(Domain).PD.(*nic.PD).RegDistribution(spec, g)
	})
}

// allocate makes memory and has it registered.
func allocate(size, offset int, register func(b []byte) (verbs.MR, error)) (oracle.MR, error) {
	if size < 1 || offset < 0 || offset >= os.Getpagesize() {
		return nil, fmt.Errorf("a region of %d bytes at %d in a page", size, offset)
	}
	pages, err := unix.Mmap(-1, 0, offset+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	g := &engineRegion{pages: pages, memory: pages[offset : offset+size]}
	if g.r, err = register(g.memory); err != nil {
		return nil, errors.Join(err, unix.Munmap(pages))
	}
	return g, nil
}

func (g *engineRegion) Destroy(context.Context) error {
	if err := g.r.Deregister(); err != nil {
		return err
	}
	return unix.Munmap(g.pages)
}

func (g *engineRegion) Addr() uint64 { return g.r.VA() }
func (g *engineRegion) Len() int     { return len(g.memory) }
func (g *engineRegion) LKey() uint32 { return g.r.LKey() }
func (g *engineRegion) RKey() uint32 { return g.r.RKey() }

func (g *engineRegion) part(off, n int) ([]byte, error) {
	if off < 0 || n < 0 || n > len(g.memory)-off {
		return nil, fmt.Errorf("bytes %d to %d of a region of %d", off, off+n, len(g.memory))
	}
	return g.memory[off : off+n], nil
}

func (g *engineRegion) Fill(_ context.Context, off, n int, seed, skip uint64) error {
	b, err := g.part(off, n)
	oracle.FillPattern(b, seed, skip)
	return err
}

func (g *engineRegion) Check(_ context.Context, off, n int, seed, skip uint64) (oracle.Mismatch, error) {
	b, err := g.part(off, n)
	return oracle.CheckPattern(b, seed, skip), err
}

func (g *engineRegion) Peek(_ context.Context, off, n int) ([]byte, error) {
	b, err := g.part(off, n)
	return append([]byte(nil), b...), err
}

func (g *engineRegion) Poke(_ context.Context, off int, data []byte) error {
	b, err := g.part(off, len(data))
	copy(b, data)
	return err
}
