// SPDX-License-Identifier: Apache-2.0

package client

import (
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// regions are the regions that the server may access. The server knows their memory by address only, and
// so does the peer. Without a reference here the garbage collector would give memory that the application
// no longer references to other data of it, which peers would read and overwrite.
type regions struct {
	mu    sync.Mutex
	all   map[*MR]struct{} // regions with their memory; until Deregister
	ended bool             // the server accesses none any more
}

// keep keeps the memory of a region, from before the server knows it.
func (r *regions) keep(m *MR) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	if r.all == nil {
		r.all = map[*MR]struct{}{}
		everyRegions.Store(r, nil)
	}
	r.all[m] = struct{}{}
}

// drop ends keep: the server does not access the region.
func (r *regions) drop(m *MR) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, m)
}

// dropAll ends keep for all regions: the server has ended all that this process had.
func (r *regions) dropAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all, r.ended = nil, true
	everyRegions.Delete(r)
}

// everyRegions has the *regions of all devices of this process: memory of Alloc of one device may be registered
// at another one, for which it is memory like any other.
var everyRegions sync.Map

// elsewhere is how many regions of other devices have a part of b, which Alloc of one device has returned.
func elsewhere(b []byte) (n int) {
	from, to := addressOf(b), addressOf(b)+uint64(len(b))
	everyRegions.Range(func(r, _ any) bool {
		n += r.(*regions).overlap(from, to)
		return true
	})
	return n
}

// overlap is how many regions have a part of the memory between two addresses.
func (r *regions) overlap(from, to uint64) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for m := range r.all {
		if at := addressOf(m.memory); at < to && from < at+m.n {
			n++
		}
	}
	return n
}

func (r *regions) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// closeSignal closes the socket of the signals, which nobody reads any more. The server closes its end of the
// socket last of all, so the end of the file is when it accesses no memory of this device. Until then the
// memory of regions is kept.
func (d *Device) closeSignal() {
	if d.signal == nil {
		return
	}
	if d.regions.len() == 0 {
		d.regions.dropAll()
		d.signal.Close()
		return
	}
	go func() {
		defer d.signal.Close()
		_ = d.signal.SetReadDeadline(time.Time{})
		for buf := make([]byte, 4096); ; {
			if _, err := d.signal.Read(buf); err != nil {
				d.regions.dropAll()
				return
			}
		}
	}()
}

// keepMemory keeps the memory of a region that the server is to make, and counts the region for Free.
func (m *MR) keepMemory() {
	if m.buffer != nil {
		m.buffer.regions.Add(1)
	} else {
		m.d.regions.keep(m)
	}
}

// dropMemory ends keepMemory: the server has no such region.
func (m *MR) dropMemory() {
	if m.buffer != nil {
		m.buffer.regions.Add(-1)
	} else {
		m.d.regions.drop(m)
	}
}

// Deregister implements verbs.MR. The memory of the region is kept until then.
func (m *MR) Deregister() error {
	if err := m.d.end(proto.TDeregMR, m.handle); err != nil {
		return err
	}
	m.dropMemory()
	return nil
}
