// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Errors of accesses.
var (
	// ErrEnded: the process has ended, or it executes another program.
	ErrEnded = errors.New("procmem: the process has ended or executes another program")

	// ErrUnmapped: the memory is not there any more, or the kernel cannot access it.
	ErrUnmapped = errors.New("procmem: the memory is not mapped any more, or a userfaultfd handler or file system does not provide it")

	// ErrRevoked: Revoke was called.
	ErrRevoked = errors.New("procmem: the server accesses this process no more: its memory was too slow")
)

// Process is the address space of another process. Its methods may be called by any
// goroutine. They do not allocate, except Check and Spec.
type Process struct {
	mem, maps, pagemap int
	textOnly           bool // read maps as text, as with a kernel before 6.11

	refused atomic.Pointer[error] // set when no access can succeed any more: why
	faults  atomic.Uint64
	starts  atomic.Uint64 // accesses that have begun
	ends    atomic.Uint64 // accesses that have ended
	steps   atomic.Uint64 // mappings that Check has looked at
	threads threads
}

var _ mr.Backend = (*Process)(nil)

// OpenProcess returns the process that opened /proc/self/mem (for reading and writing),
// /proc/self/maps and /proc/self/pagemap. It takes over the descriptors, and closes them also
// if it fails. A descriptor of another file is refused without being read: it could block,
// or be one that its owner may not write.
func OpenProcess(mem, maps, pagemap int) (*Process, error) {
	p := &Process{mem: mem, maps: maps, pagemap: pagemap, threads: threads{dir: "/proc/self/task"}}
	err := errors.Join(
		checkDescriptor(mem, "mem", unix.O_RDWR),
		checkDescriptor(maps, "maps", unix.O_RDONLY),
		checkDescriptor(pagemap, "pagemap", unix.O_RDONLY),
	)
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// Close closes the descriptors. The caller deregisters the regions of the process first:
// after that no access is in progress.
func (p *Process) Close() error {
	err := errors.Join(unix.Close(p.mem), unix.Close(p.maps), unix.Close(p.pagemap))
	p.mem, p.maps, p.pagemap = -1, -1, -1
	return err
}

// Ended reports whether an access found that the process has ended. It stays false until
// there is one.
func (p *Process) Ended() bool { return p.refused.Load() == &ErrEnded }

// Faults is how many accesses have failed.
func (p *Process) Faults() uint64 { return p.faults.Load() }

// Steps is how many mappings Check has looked at in all: a process may have tens of thousands in one
// region, and each costs system calls.
func (p *Process) Steps() uint64 { return p.steps.Load() }

// pageSize of a region: all addresses of a process are in one page, so that the table of a
// region has one entry. The largest user address has 56 bits.
const pageSize = 1 << 57

// Spec checks n bytes at addr of the process as Check does and returns how to register them.
// Work requests and peers name them by the addresses of the process, or with
// verbs.AccessZeroBased from 0 on. The caller sets PD.
func (p *Process) Spec(addr, n uint64, access verbs.Access) (mr.Spec, error) {
	if err := p.Check(addr, n, access); err != nil {
		return mr.Spec{}, err
	}
	va := addr
	if access&verbs.AccessZeroBased != 0 {
		va = 0
	}
	return mr.Spec{Access: access, VA: va, Pages: &mr.Pages{
		Backend: p, PageSize: pageSize, Addrs: []uint64{0}, First: addr, Length: n,
	}}, nil
}

// ReadAt implements mr.Backend.
func (p *Process) ReadAt(dst []byte, addr uint64) error {
	for len(dst) > 0 {
		if why := p.refused.Load(); why != nil {
			p.faults.Add(1)
			return *why
		}
		p.starts.Add(1)
		n, err := unix.Pread(p.mem, dst, int64(addr))
		p.ends.Add(1)
		if n <= 0 && err != unix.EINTR {
			return p.fault(err)
		}
		dst, addr = dst[max(n, 0):], addr+uint64(max(n, 0))
	}
	return nil
}

// WriteAt implements mr.Backend. The bytes are in the memory when it returns.
func (p *Process) WriteAt(src []byte, addr uint64) error {
	for len(src) > 0 {
		if why := p.refused.Load(); why != nil {
			p.faults.Add(1)
			return *why
		}
		p.starts.Add(1)
		n, err := unix.Pwrite(p.mem, src, int64(addr))
		p.ends.Add(1)
		if n <= 0 && err != unix.EINTR {
			return p.fault(err)
		}
		src, addr = src[max(n, 0):], addr+uint64(max(n, 0))
	}
	return nil
}

// fault counts an access that failed. The kernel transfers 0 bytes once the address space
// has no process any more.
func (p *Process) fault(err error) error {
	p.faults.Add(1)
	if err == nil || err == unix.ESRCH {
		p.refused.CompareAndSwap(nil, &ErrEnded)
		return ErrEnded
	}
	return ErrUnmapped
}

// atomics makes the atomics of all processes atomic towards each other: two processes may
// share memory, and one may have opened the device twice.
var atomics struct {
	sync.Mutex
	word [8]byte
}

// CompareSwap implements mr.Backend.
func (p *Process) CompareSwap(addr, compare, swap uint64) (uint64, error) {
	return p.atomic(addr, func(old uint64) (uint64, bool) { return swap, old == compare })
}

// FetchAdd implements mr.Backend.
func (p *Process) FetchAdd(addr, add uint64) (uint64, error) {
	return p.atomic(addr, func(old uint64) (uint64, bool) { return old + add, true })
}

func (p *Process) atomic(addr uint64, next func(old uint64) (uint64, bool)) (uint64, error) {
	atomics.Lock()
	defer atomics.Unlock()
	b := atomics.word[:]
	if err := p.ReadAt(b, addr); err != nil {
		return 0, err
	}
	old := binary.NativeEndian.Uint64(b)
	value, write := next(old)
	if !write {
		return old, nil
	}
	binary.NativeEndian.PutUint64(b, value)
	return old, p.WriteAt(b, addr)
}
