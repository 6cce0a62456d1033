// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// resources are what a Device hands out of a card. The lock of the device guards them.
type resources struct {
	memory   spans // DDR
	mtt      spans
	regions  spans
	cqs, qps spans
	groups   spans
	pds      uint32
	lastKey  map[uint64]uint32 // latest key by element
}

// firstQP is the first queue pair number: 0 and 1 are QP0 and QP1.
const firstQP = 2

func newResources(space *hwoffload.Space, bytes uint64) resources {
	return resources{
		memory:  newSpans("bytes of card memory for rings (RingBytes of driver.Config)", space.Address(0), bytes),
		mtt:     newSpans("entries of the MTT", 0, regs.MttCount),
		regions: newSpans("memory regions", 0, regs.MrCount),
		cqs:     newSpans("completion queues", 0, regs.CqCount),
		qps:     newSpans("queue pairs", firstQP, regs.QpCount-firstQP),
		groups:  newSpans("distribution groups", 0, regs.DistributionCount),
		lastKey: map[uint64]uint32{},
	}
}

// reserve takes memory from the first bank that has room.
func reserve(a *hwoffload.Allocator, bytes uint64) (s *hwoffload.Space, err error) {
	for bank := range hwoffload.Banks {
		if s, err = a.AllocBank(bank, bytes, 0); !errors.Is(err, hwoffload.ErrDDRFull) {
			return s, err
		}
	}
	return nil, err
}

// require returns an error if the card has not what a call needs.
func (d *Device) require(what string, has func(regs.IdentCapabilities) bool) error {
	c := regs.IdentOf(d.card).Capabilities()
	if err := d.card.Err(); err != nil {
		return err
	}
	if !has(c) {
		return fmt.Errorf("card: %w: this card has no %s (capabilities %#x): use another build of the card, or start them in the model", errors.ErrUnsupported, what, uint32(c))
	}
	return nil
}

// take and give are those of spans, under the lock.
func (d *Device) take(s *spans, n, align uint64) (uint64, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	return s.take(n, align)
}

func (d *Device) give(s *spans, from, n uint64) {
	d.lock.Lock()
	defer d.lock.Unlock()
	s.give(from, n)
}

const ringAlign = 64

// log2 returns the smallest number of which 2 to its power is at least n.
func log2(n int) uint32 { return uint32(bits.Len(uint(max(n, 1) - 1))) }

// newRing takes and clears card memory for 2^log2Entries entries.
func (d *Device) newRing(log2Entries, log2Entry uint32) (base uint64, err error) {
	size := uint64(1) << (log2Entries + log2Entry)
	if base, err = d.take(&d.free.memory, size, ringAlign); err != nil {
		return 0, err
	}
	if err = d.clear(base, size); err != nil {
		d.give(&d.free.memory, base, size)
	}
	return base, err
}

// clear writes zeros to card memory.
func (d *Device) clear(base, n uint64) error {
	zeros := make([]byte, min(n, 1<<16))
	for at := uint64(0); at < n; at += uint64(len(zeros)) {
		if _, err := d.card.DDR().WriteAt(zeros[:min(n-at, uint64(len(zeros)))], int64(base+at)); err != nil {
			return err
		}
	}
	return nil
}

// SetPort enables a port of the card and sets its Ethernet address.
func (d *Device) SetPort(i int, mac [6]byte) error {
	if i < 0 || i >= regs.PortsCount {
		return fmt.Errorf("card: port %d: the card has ports 0 to %d", i, regs.PortsCount-1)
	}
	p := regs.PortsOf(d.card, i)
	p.SetMac(regs.PortsMac(0).WithAddress(regs.MACWord(mac)))
	p.SetControl(p.Control().WithEnable(true))
	return d.card.Err()
}

// SetNode has a node exist in block nodes: its address, and the port that leads to it.
func (d *Device) SetNode(number int, addr netip.Addr, port int) error {
	if number < 1 || number > regs.NodesNodeCount || port < 0 || port >= regs.PortsCount || !addr.IsValid() {
		return fmt.Errorf("card: node %d with address %v at port %d: use numbers 1 to %d and ports 0 to %d", number, addr, port, regs.NodesNodeCount, regs.PortsCount-1)
	}
	n := regs.NodesOf(d.card)
	high, low := regs.AddrWords(addr)
	n.SetAddr(number-1, high)
	n.SetAddrLow(number-1, low)
	n.SetNode(number-1, regs.NodesNode(0).WithValid(true).WithPort(uint32(port)))
	return d.card.Err()
}

var errRefused = errors.New("the card refused it")
