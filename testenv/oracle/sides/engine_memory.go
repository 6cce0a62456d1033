// SPDX-License-Identifier: Apache-2.0

package sides

import (
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
	verbs.MR
	verbs.Bytes // part of pages
	pages       []byte
}

// newRegion makes and registers memory.
func newRegion(pd verbs.PD, size, offset int, rights verbs.Access) (verbs.DM, error) {
	return allocate(size, offset, func(b []byte) (verbs.MR, error) { return pd.RegMR(b, rights) })
}

// Distribute implements oracle.Hub.
func (s *EngineSide) Distribute(pd verbs.PD, size int, to []oracle.Destination) (verbs.DM, error) {
	var g mr.Group
	for _, x := range to {
		g = append(g, mr.Destination{QPN: x.QP.QPN(), VA: x.Addr, RKey: x.RKey})
	}
	const offset = 24 // messages and pages do not end together
	return allocate(size, offset, func(b []byte) (verbs.MR, error) {
		spec := mr.Spec{Host: b, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite}
		return pd.(*nic.PD).RegDistribution(spec, g)
	})
}

// allocate makes memory and has it registered.
func allocate(size, offset int, register func(b []byte) (verbs.MR, error)) (verbs.DM, error) {
	if size < 1 || offset < 0 || offset >= os.Getpagesize() {
		return nil, fmt.Errorf("a region of %d bytes at %d in a page", size, offset)
	}
	pages, err := unix.Mmap(-1, 0, offset+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	r, err := register(pages[offset : offset+size])
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(pages))
	}
	return &engineRegion{r, pages[offset : offset+size], pages}, nil
}

// Deregister frees the memory too.
func (g *engineRegion) Deregister() error {
	if err := g.MR.Deregister(); err != nil {
		return err
	}
	return unix.Munmap(g.pages)
}
