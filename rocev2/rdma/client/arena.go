// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/mr/clientmem"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// arenas is the memory that server and process have both mapped: one or more memfds.
type arenas struct {
	grow   sync.Mutex // held while the server is asked for another one; before mu
	mu     sync.Mutex
	all    []*sharedArena
	closed bool // the device is; arenas end with their last buffer
	resting
}

type sharedArena struct {
	*clientmem.Arena
	handle  uint32
	buffers buffers // buffers that Alloc has returned, and Free has not got back
}

// Alloc returns n bytes of memory that the server accesses without a copy, for RegMR. Its alignment
// is 128 bytes. It does not move, and stays accessible until Free, also after Close of the device.
func (d *Device) Alloc(n int) ([]byte, error) {
	if n < 1 {
		return nil, fmt.Errorf("alloc: %w: %d bytes", verbs.ErrRange, n)
	}
	s := &d.arena
	if b, err := s.alloc(n); b != nil || err != nil {
		return b, err
	}
	s.grow.Lock()
	defer s.grow.Unlock()
	if b, err := s.alloc(n); b != nil || err != nil { // another goroutine may have made an arena
		return b, err
	}
	a, err := d.newArena(max(n, d.conf.ArenaBytes))
	if err != nil {
		return nil, fmt.Errorf("alloc: %d bytes: %w", n, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.Join(fmt.Errorf("alloc: %d bytes: %w", n, verbs.ErrClosed), a.Close())
	}
	s.all = append(s.all, a)
	return a.take(n)
}

// alloc returns n bytes of zeroed memory of the arenas that are there. It returns nil without an error if none has
// room.
func (s *arenas) alloc(n int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("alloc: %d bytes: %w", n, verbs.ErrClosed)
	}
	b, err := s.take(n)
	if b == nil && err == nil && s.giveBack(0) {
		b, err = s.take(n)
	}
	clear(b)
	return b, err
}

// take takes n bytes of an arena that has room for them. It returns nil without an error if none has.
func (s *arenas) take(n int) ([]byte, error) {
	for _, a := range s.all {
		b, err := a.take(n)
		if err == nil || !errors.Is(err, clientmem.ErrFull) && !errors.Is(err, verbs.ErrRange) {
			return b, err
		}
	}
	return nil, nil
}

func (a *sharedArena) take(n int) ([]byte, error) {
	b, err := a.Alloc(n)
	if err == nil {
		a.add(b)
	}
	return b, err
}

// newArena makes an arena and passes it to the server.
func (d *Device) newArena(size int) (*sharedArena, error) {
	a, err := clientmem.CreateArena(size)
	if err != nil {
		return nil, err
	}
	var r proto.Handle
	fds, err := d.callWith(proto.TAddArena, &proto.AddArena{Bytes: uint64(len(a.Bytes()))}, &r, a.FD())
	proto.CloseFDs(fds)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	a.CloseFD()
	return &sharedArena{Arena: a, handle: r.Handle}, nil
}

// find returns the arena of memory, and the offset there; nil: none.
func (s *arenas) find(b []byte) (*sharedArena, uint64) {
	for _, a := range s.all {
		if offset, ok := a.Offset(b); ok {
			return a, offset
		}
	}
	return nil, 0
}

// close unmaps the arenas that nobody uses. The others end with their last buffer.
func (s *arenas) close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.resting = true, resting{}
	used := s.all[:0]
	for _, a := range s.all {
		if len(a.buffers) > 0 {
			used = append(used, a)
			continue
		}
		err = errors.Join(err, a.Close())
	}
	s.all = used
	return err
}

// mapShared maps n bytes of a file from an offset on, a multiple of the size of a page.
func mapShared(fd int, offset int64, n int) ([]byte, error) {
	b, err := unix.Mmap(fd, offset, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes at offset %d: %w", n, offset, err)
	}
	return b, nil
}
