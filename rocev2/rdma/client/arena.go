// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/spans"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// arenaAlign is the alignment of what Alloc returns: cache lines.
const arenaAlign = 64

// arenas is the memory that server and process have both mapped: one or more memfds.
type arenas struct {
	d   *Device
	mu  sync.Mutex
	all []*arena
}

type arena struct {
	handle uint32
	b      []byte
	free   spans.List
	taken  map[uint64]uint64 // by offset
}

// Alloc returns n bytes of zeroed memory that the server accesses without a copy, for RegMR.
// Its alignment is 64 bytes. It does not move, and Close of the device frees it.
func (d *Device) Alloc(n int) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("alloc: %d bytes: use 1 or more", n)
	}
	s := &d.arena
	s.mu.Lock()
	defer s.mu.Unlock()
	size := (uint64(n) + arenaAlign - 1) &^ (arenaAlign - 1)
	for _, a := range s.all {
		if b := a.alloc(size); b != nil {
			return b[:n:n], nil
		}
	}
	a, err := d.newArena(max(size, uint64(d.conf.ArenaBytes)))
	if err != nil {
		return nil, fmt.Errorf("alloc: %d bytes: %w", n, err)
	}
	s.all = append(s.all, a)
	return a.alloc(size)[:n:n], nil
}

// Free gives memory of Alloc back. No region of it is registered any more.
func (d *Device) Free(b []byte) error {
	s := &d.arena
	s.mu.Lock()
	defer s.mu.Unlock()
	a, offset := s.find(b)
	if a == nil || a.taken[offset] == 0 {
		return fmt.Errorf("free: %w: not what Alloc has returned", verbs.ErrRange)
	}
	n := a.taken[offset]
	clear(a.b[offset : offset+n])
	delete(a.taken, offset)
	a.free.Give(spans.Span{From: offset, N: n})
	return nil
}

func (a *arena) alloc(n uint64) []byte {
	s, ok := a.free.Take(n, arenaAlign)
	if !ok {
		return nil
	}
	a.taken[s.From] = n
	return a.b[s.From : s.From+n]
}

// newArena makes a memfd, maps it, and passes it to the server.
func (d *Device) newArena(size uint64) (*arena, error) {
	page := uint64(unix.Getpagesize())
	size = (size + page - 1) &^ (page - 1)
	fd, err := unix.MemfdCreate("softroce-arena", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, fmt.Errorf("memfd of %d bytes: %w", size, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return nil, fmt.Errorf("seal the memfd: %w", err)
	}
	b, err := mapShared(fd, int(size))
	if err != nil {
		return nil, err
	}
	var r proto.Handle
	fds, err := d.callWith(proto.TAddArena, &proto.AddArena{Bytes: size}, &r, fd)
	proto.CloseFDs(fds)
	if err != nil {
		_ = unix.Munmap(b)
		return nil, err
	}
	return &arena{handle: r.Handle, b: b, free: spans.New(0, size), taken: map[uint64]uint64{}}, nil
}

// find returns the arena of memory, and the offset there; nil: none.
func (s *arenas) find(b []byte) (*arena, uint64) {
	at := addressOf(b)
	for _, a := range s.all {
		if off := at - addressOf(a.b); off < uint64(len(a.b)) && uint64(len(b)) <= uint64(len(a.b))-off {
			return a, off
		}
	}
	return nil, 0
}

// close unmaps all arenas.
func (s *arenas) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.all {
		_ = unix.Munmap(a.b)
	}
	s.all = nil
}

func mapShared(fd, n int) ([]byte, error) {
	b, err := unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", n, err)
	}
	return b, nil
}
