// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// buffer is memory that Alloc has returned.
type buffer struct {
	from, n uint64       // bytes of the arena
	regions atomic.Int32 // number of regions that the server has in the buffer
}

// buffers are the buffers of an arena, in the order of their addresses.
type buffers []*buffer

// at returns the index of the buffer that begins at an offset or before it, and nearest to it; -1: none.
func (l buffers) at(offset uint64) int {
	return sort.Search(len(l), func(i int) bool { return l[i].from > offset }) - 1
}

// add notes a buffer that the arena has returned.
func (a *sharedArena) add(b []byte) {
	offset, _ := a.Offset(b)
	a.buffers = slices.Insert(a.buffers, a.buffers.at(offset)+1, &buffer{from: offset, n: uint64(len(b))})
}

// hold finds the arena and the buffer of the memory of a region, and keeps it. A nil arena: it is other
// memory of the process. The error wraps verbs.ErrRange: it is memory of Alloc that was freed.
func (s *arenas) hold(m *MR) (*sharedArena, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, offset := s.find(m.memory)
	if a != nil {
		i := a.buffers.at(offset)
		if i < 0 || offset+m.n > a.buffers[i].from+a.buffers[i].n {
			return nil, 0, fmt.Errorf("register: %w: %d bytes of memory that Alloc has returned and Free has got back", verbs.ErrRange, m.n)
		}
		m.buffer = a.buffers[i]
	}
	m.keepMemory()
	return a, offset, nil
}

// Free gives memory of Alloc back. Without an error, it may have another owner from then on. The latest memory
// that was freed, an eighth of Config.ArenaBytes, has one only if there is no other room in the arenas.
//
// The error wraps verbs.ErrRange if b is not all of what Alloc has returned, or was freed before and has no
// other owner, and verbs.ErrBusy while a region of it is registered, at this device or another one of the
// process: its key would give peers access to the memory of the next owner. After an error nothing is freed.
// After the end of a device no peer has access, so nothing has to be deregistered there.
func (d *Device) Free(b []byte) error {
	s := &d.arena
	s.mu.Lock()
	defer s.mu.Unlock()
	whole := b[:cap(b)]
	a, offset := s.find(whole)
	if a == nil {
		return fmt.Errorf("free: %w: not what Alloc has returned", verbs.ErrRange)
	}
	i := a.buffers.at(offset)
	switch {
	case i < 0 || offset >= a.buffers[i].from+a.buffers[i].n:
		return fmt.Errorf("free: %w: this memory was freed before", verbs.ErrRange)
	case offset != a.buffers[i].from || uint64(len(whole)) != a.buffers[i].n:
		return fmt.Errorf("free: %w: %d bytes at offset %d of a buffer of %d bytes: pass what Alloc has returned, as a whole",
			verbs.ErrRange, len(whole), offset-a.buffers[i].from, a.buffers[i].n)
	}
	n := elsewhere(whole)
	if d.alive() == nil {
		n += int(a.buffers[i].regions.Load())
	}
	if n != 0 {
		return fmt.Errorf("free: %w: %d regions of this memory are registered: deregister them first", verbs.ErrBusy, n)
	}
	a.buffers = slices.Delete(a.buffers, i, i+1)
	if !s.closed {
		s.rest(a, whole)
		s.giveBack(d.conf.ArenaBytes / restingShare)
	}
	if s.closed && len(a.buffers) == 0 {
		s.all = slices.DeleteFunc(s.all, func(x *sharedArena) bool { return x == a })
		return a.Close()
	}
	return nil
}
