// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// memory is the pool: slabs that are registered while a node has them.
type memory struct {
	dev       verbs.Device
	all       []byte
	slabBytes uint64
	regions   []verbs.MR // regions by slab; nil: not registered
	stuck     bool       // a region could not be deregistered
}

func newMemory(dev verbs.Device, slabs int, slabBytes uint64) (*memory, error) {
	all, err := rdma.Alloc(dev, slabs*int(slabBytes))
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(all); i += pageBytes {
		all[i] = 0 // the memory is there before it is lent
	}
	return &memory{dev: dev, all: all, slabBytes: slabBytes, regions: make([]verbs.MR, slabs)}, nil
}

func (m *memory) slab(s lease.Slab) []byte {
	return m.all[uint64(s)*m.slabBytes : (uint64(s)+1)*m.slabBytes]
}

// open registers a slab in the protection domain of a node.
func (m *memory) open(pd verbs.PD, s lease.Slab) (err error) {
	m.regions[s], err = pd.RegMR(m.slab(s), verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	return err
}

// close ends the key of a slab. When it returns nil, nothing accesses the slab any more.
func (m *memory) close(s lease.Slab) error {
	if m.regions[s] == nil {
		return nil
	}
	err := m.regions[s].Deregister()
	if err == nil || errors.Is(err, verbs.ErrClosed) || errors.Is(err, verbs.ErrGone) {
		m.regions[s] = nil
	}
	m.stuck = m.stuck || err != nil
	return err
}

// free gives the memory back, unless something may still access it.
func (m *memory) free() error {
	if m.stuck {
		return nil
	}
	return rdma.Free(m.dev, m.all)
}
