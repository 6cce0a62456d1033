// SPDX-License-Identifier: Apache-2.0

package hwoffload

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// ErrNoCard is the error of Open about a device that is no softroce card.
var ErrNoCard = errors.New("this is no softroce card")

// major is the major version of the definition that this driver knows.
const major = regs.IdentVersionMajorReset

// Block is an entry of the card's list of blocks.
type Block struct {
	Type, Version uint32
	Base          uint64 // address
	Stride        uint64 // bytes from one element to the next
	Count         uint64 // elements
}

// Card is a card whose identification was checked. There must be one Card for a Device, since
// its DDR has the lock of the window. All methods may be called concurrently.
type Card struct {
	Device
	Blocks []Block // blocks in the order of the card's list
	ddr    DDR
	alloc  *Allocator

	queues atomic.Bool // TakeQueues
}

// TakeQueues reserves the queues and regions of the card for the caller, until it calls
// ReturnQueues. It returns false if somebody has them: two users would use the same numbers.
func (c *Card) TakeQueues() bool { return c.queues.CompareAndSwap(false, true) }

// ReturnQueues ends what TakeQueues has begun.
func (c *Card) ReturnQueues() { c.queues.Store(false) }

// Open checks that a device is a card with registers that this driver knows.
func Open(d Device) (*Card, error) {
	id := regs.IdentOf(d)
	magic, version := id.Magic(), id.Version()
	switch {
	case d.Err() != nil:
		return nil, d.Err()
	case magic == math.MaxUint32 || magic == 0: // qemu reads 0 where a PCI bus reads all ones
		return nil, fmt.Errorf("%w: the device does not answer (it reads %#x at address 0): is memory access enabled in its PCI command register? 1 in the file enable of its sysfs folder enables it", ErrNoCard, magic)
	case magic != regs.IdentMagicReset:
		return nil, fmt.Errorf("%w: it reads %#x at address 0, a card %#x", ErrNoCard, magic, regs.IdentMagicReset)
	case version.Major() != major:
		return nil, fmt.Errorf("the card has registers of version %d.%d, this program knows version %d: use a program and a card of the same major version",
			version.Major(), version.Minor(), major)
	}
	c := &Card{Device: d, alloc: NewAllocator()}
	c.ddr.dev = d
	if err := c.readList(id); err != nil {
		return nil, err
	}
	return c, c.checkBlocks()
}

// readList follows the list of blocks. A list that leads outside of block ident or has a loop
// is an error.
func (c *Card) readList(id regs.Ident) error {
	const first, step = regs.IdentBase + regs.IdentListTypeOffset, regs.IdentListTypeStride
	for at := uint64(id.ListStart()); at != 0; {
		if at < first || (at-first)%step != 0 || at >= first+regs.IdentListTypeCount*step {
			return fmt.Errorf("the card's list of blocks leads to %#x, which is no entry of the list: is the card's build complete?", at)
		}
		if len(c.Blocks) == regs.IdentListTypeCount {
			return errors.New("the card's list of blocks has a loop: is the card's build complete?")
		}
		i := int(at-first) / step
		c.Blocks = append(c.Blocks, Block{
			Type: id.ListType(i), Version: id.ListVersion(i),
			Base: uint64(id.ListBase(i)), Stride: uint64(id.ListStride(i)), Count: uint64(id.ListCount(i)),
		})
		at = uint64(id.ListNext(i))
	}
	return c.Err()
}

// checkBlocks compares the card's blocks with those that the accessors of package regs have
// at fixed addresses. Blocks of other types are allowed.
func (c *Card) checkBlocks() error {
	for i := range regs.Blocks {
		want := &regs.Blocks[i]
		at := slices.IndexFunc(c.Blocks, func(b Block) bool { return uint64(b.Type) == want.Type })
		if at < 0 {
			return fmt.Errorf("the card has no block %s (type %d): it needs one for this program", want.Name, want.Type)
		}
		b := c.Blocks[at]
		if uint64(b.Version) != want.Version || b.Base != want.Base || b.Stride != want.Stride || b.Count != want.Count {
			return fmt.Errorf("block %s of the card has version %d and %d elements of %d bytes at %#x, this program knows version %d and %d elements of %d bytes at %#x",
				want.Name, b.Version, b.Count, b.Stride, b.Base, want.Version, want.Count, want.Stride, want.Base)
		}
	}
	return nil
}

// DDR is the memory of the card (S2.1).
func (c *Card) DDR() *DDR { return &c.ddr }
