// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	_ "github.com/softroce/softroce-xdp/internal/platform" // 64-bit Linux only
	"github.com/softroce/softroce-xdp/internal/spans"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// ErrFull: no free range of the arena is large enough.
var ErrFull = errors.New("no room left in the arena")

// seals fix the size of the file. Without F_SEAL_SEAL a process could add F_SEAL_WRITE.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Arena is memory that several processes have mapped. Its methods may be called by any
// goroutine, Close after all others.
type Arena struct {
	fd   int
	data []byte

	mu   sync.Mutex
	free spans.List
}

// CreateArena makes an arena of n bytes, rounded up to whole pages. Its pages are zero.
func CreateArena(n int) (*Arena, error) {
	page := os.Getpagesize()
	if n < 1 || n > maxBytes {
		return nil, fmt.Errorf("arena: %w: %d bytes; choose 1 to %d", verbs.ErrRange, n, maxBytes)
	}
	n = (n + page - 1) / page * page
	fd, err := unix.MemfdCreate("softroce-arena", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("softroce-arena", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("arena: memfd_create: %w", err)
	}
	if err := unix.Ftruncate(fd, int64(n)); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("arena: %d bytes: %w", n, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("arena: seal: %w", err)
	}
	return mapFile(fd, n)
}

// maxBytes is the largest arena: what the addresses of a process have room for several times.
const maxBytes = 1 << 44

// OpenArena maps an arena that another process has made, of up to limit bytes. It takes over the
// descriptor and closes it: the mapping does not need it, and a server has thousands of arenas.
func OpenArena(fd int, limit uint64) (*Arena, error) {
	n, err := check(fd, limit)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("arena: descriptor %d: %w", fd, err)
	}
	a, err := mapFile(fd, n)
	if err == nil {
		a.CloseFD()
	}
	return a, err
}

// check checks the file without changing or reading it.
func check(fd int, limit uint64) (int, error) {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &fs)); err != nil {
		return 0, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || fs.Type != unix.TMPFS_MAGIC {
		return 0, fmt.Errorf("%w: not a memfd (or one of huge pages); use memfd_create without MFD_HUGETLB", verbs.ErrRange)
	}
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, fmt.Errorf("%w: %w; use memfd_create with MFD_ALLOW_SEALING", verbs.ErrRange, err)
	}
	if got&seals != seals {
		return 0, fmt.Errorf("%w: seals %#x; add F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL (%#x)", verbs.ErrRange, got, seals)
	}
	if got&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0 {
		return 0, fmt.Errorf("%w: seals %#x forbid writing; leave out F_SEAL_WRITE and F_SEAL_FUTURE_WRITE", verbs.ErrAccess, got)
	}
	limit = min(limit, maxBytes)
	if st.Size < 1 || uint64(st.Size) > limit || st.Size%int64(os.Getpagesize()) != 0 {
		return 0, fmt.Errorf("%w: %d bytes; an arena has whole pages of %d bytes, up to %d bytes", verbs.ErrRange, st.Size, os.Getpagesize(), limit)
	}
	return int(st.Size), nil
}

func mapFile(fd, n int) (*Arena, error) {
	data, err := unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("arena: map %d bytes of descriptor %d for reading and writing: %w", n, fd, err)
	}
	// A server that keeps itself in memory (mlockall) does not do so for the memory of a process.
	_ = unix.Munlock(data)
	return &Arena{fd: fd, data: data, free: spans.New(0, uint64(n))}, nil
}

// FD is the descriptor of the memfd. It stays the arena's. It is -1 after CloseFD.
func (a *Arena) FD() int { return a.fd }

// CloseFD closes the descriptor, once it was passed. The memory stays mapped.
func (a *Arena) CloseFD() {
	if a.fd >= 0 {
		_ = unix.Close(a.fd)
		a.fd = -1
	}
}

// Bytes is the whole memory. It stays at its address until Close.
func (a *Arena) Bytes() []byte { return a.data }

// Slice returns n bytes from an offset on. The error wraps verbs.ErrRange.
func (a *Arena) Slice(offset, n uint64) ([]byte, error) {
	if size := uint64(len(a.data)); n == 0 || offset > size || n > size-offset {
		return nil, fmt.Errorf("arena: %w: %d bytes at offset %d of an arena of %d bytes", verbs.ErrRange, n, offset, size)
	}
	return a.data[offset : offset+n : offset+n], nil
}

// Close unmaps the memory and closes the descriptor. All regions of it are deregistered
// before. The memory exists as long as another process has it mapped.
func (a *Arena) Close() error {
	a.CloseFD()
	err := unix.Munmap(a.data)
	a.data, a.free = nil, spans.List{}
	return err
}
