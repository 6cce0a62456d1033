// SPDX-License-Identifier: Apache-2.0

package hwoffload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// BARSize is the length of the card's BAR: 256 MB of registers and the DDR window of 256 MB
// (S2.5).
const BARSize = regs.DdrWindowBaseReset + regs.DdrWindowBytesReset

// bar is a Device on a memory-mapped PCI BAR.
type bar struct {
	Fault
	lock sync.RWMutex // Close excludes accesses
	file *os.File
	mem  []byte // nil: closed
}

// OpenBAR maps a PCI BAR of a card, which sysfs has as a file, for example
// /sys/bus/pci/devices/0000:03:00.0/resource0. It locks the file, because two drivers would
// switch each other's DDR window. A plain file of BARSize bytes serves as well.
//
// Accesses are plain loads and stores of 32 or 64 bits. A store is posted, and a later load
// from the same device waits for it. The byte order of the card is little-endian, and a
// machine of another order is refused.
func OpenBAR(path string) (Device, error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, errors.New("a card needs a little-endian machine")
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_SYNC, 0)
	if err != nil {
		return nil, err
	}
	d, err := mapBAR(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func mapBAR(f *os.File) (*bar, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is no file: name the resource file of a BAR, for example /sys/bus/pci/devices/0000:03:00.0/resource0")
	}
	if info.Size() < BARSize {
		return nil, fmt.Errorf("the BAR has %d bytes, a softroce card has %d: name the resource file of the card's BAR", info.Size(), BARSize)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrInUse
		}
		return nil, fmt.Errorf("lock: %w", err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, BARSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	return &bar{file: f, mem: mem}, nil
}

func (d *bar) Size() uint64 { return BARSize }

// access calls do with the place of an address, if the access is possible.
func (d *bar) access(addr, width uint64, do func(p unsafe.Pointer)) {
	d.lock.RLock()
	defer d.lock.RUnlock()
	if d.mem == nil {
		d.Set(os.ErrClosed)
	}
	if d.Check(addr, width, BARSize) {
		do(unsafe.Pointer(&d.mem[addr]))
	}
}

func (d *bar) R32(addr uint64) uint32 {
	v := ^uint32(0)
	d.access(addr, 4, func(p unsafe.Pointer) { v = load32((*uint32)(p)) })
	return v
}

func (d *bar) R64(addr uint64) uint64 {
	v := ^uint64(0)
	d.access(addr, 8, func(p unsafe.Pointer) { v = load64((*uint64)(p)) })
	return v
}

func (d *bar) W32(addr uint64, v uint32) {
	d.access(addr, 4, func(p unsafe.Pointer) { store32((*uint32)(p), v) })
}

func (d *bar) W64(addr uint64, v uint64) {
	d.access(addr, 8, func(p unsafe.Pointer) { store64((*uint64)(p), v) })
}

func (d *bar) Close() error {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.mem == nil {
		return nil
	}
	err := unix.Munmap(d.mem)
	d.mem = nil
	return errors.Join(err, d.file.Close())
}

// Loads and stores of registers. A function that is not inlined is exactly one access:
// otherwise the compiler may join two or leave one out. atomic.Store would be a locked
// exchange on amd64, which reads the register as well.

//go:noinline
func load32(p *uint32) uint32 { return *p }

//go:noinline
func load64(p *uint64) uint64 { return *p }

//go:noinline
func store32(p *uint32, v uint32) { *p = v }

//go:noinline
func store64(p *uint64, v uint64) { *p = v }
