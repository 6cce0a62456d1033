// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// arena is a memfd of a process that the server has mapped: memory of regions without a copy.
type arena struct {
	b       []byte
	regions atomic.Int32
}

// openArena maps the first size bytes of a memfd. F_SEAL_SHRINK keeps the process from
// truncating it; an access to a page that cannot be allocated fails as package mr describes.
func openArena(fd int, size uint64) (*arena, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("arena: %w: not a memfd: %w", proto.ErrMemory, err)
	}
	if seals&unix.F_SEAL_SHRINK == 0 {
		return nil, fmt.Errorf("arena: %w: %w", proto.ErrMemory, errSeals)
	}
	if seals&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0 {
		return nil, fmt.Errorf("arena: %w: it is sealed against writing", proto.ErrMemory)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("arena: %w: %w", proto.ErrMemory, err)
	}
	if size == 0 || size > uint64(st.Size) {
		return nil, fmt.Errorf("arena: %w: %d bytes of a memfd that has %d", proto.ErrMemory, size, st.Size)
	}
	b, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("arena: %w: map %d bytes: %w", proto.ErrMemory, size, err)
	}
	return &arena{b: b}, nil
}

// part returns bytes of the arena.
func (a *arena) part(offset, n uint64) ([]byte, error) {
	if size := uint64(len(a.b)); n == 0 || offset > size || n > size-offset {
		return nil, fmt.Errorf("arena: %w: %d bytes at %d of %d", proto.ErrMemory, n, offset, size)
	}
	return a.b[offset : offset+n : offset+n], nil
}

func (a *arena) close() { _ = unix.Munmap(a.b) }
