// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"sync"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Config says what a Device may use of a card.
type Config struct {
	// Bytes is how much of the DDR is for rings and address handles. It is reserved from the
	// card's Allocator, in one bank.
	Bytes uint64

	// Resolve returns the way to a peer. It is called when a queue pair is connected, and for
	// an address handle. nil: every peer is refused.
	Resolve func(dst netip.Addr) (Hop, error)

	// Page is the page of doorbells that the Device uses, 0 to 15.
	Page int
}

// Hop is the way to a peer.
type Hop struct {
	MAC  [6]byte // of the next hop
	Node int     // number of the peer in block nodes, whose port sends; 0: Port
	Port int     // 0 to 3
}

// Device makes queues and regions on a card.
type Device struct {
	card   *hwoffload.Card
	config Config
	space  *hwoffload.Space // of memory

	lock     sync.Mutex // guards what follows
	memory   spans      // DDR
	mtt      spans
	regions  spans
	cqs, qps spans
	groups   spans
	pds      uint32
	lastKey  map[uint64]uint32 // by element
}

// firstQP is the first queue pair number: 0 and 1 are QP0 and QP1.
const firstQP = 2

// New returns a Device. A card has one at a time: the error wraps verbs.ErrBusy if another one was not
// closed.
func New(c *hwoffload.Card, config Config) (*Device, error) {
	if config.Page < 0 || config.Page >= regs.DoorbellsCount {
		return nil, fmt.Errorf("card: page %d of doorbells: use 0 to %d", config.Page, regs.DoorbellsCount-1)
	}
	if !c.TakeQueues() {
		return nil, fmt.Errorf("card: its queues are %w: another queue.Device has them: share or close it", verbs.ErrBusy)
	}
	space, err := reserve(c.Allocator(), config.Bytes)
	if err != nil {
		c.ReturnQueues()
		return nil, fmt.Errorf("card: memory for rings: %w", err)
	}
	if config.Resolve == nil {
		config.Resolve = func(dst netip.Addr) (Hop, error) {
			return Hop{}, fmt.Errorf("card: the way to %v is not known: set Resolve of queue.Config", dst)
		}
	}
	return &Device{
		card: c, config: config, space: space,
		memory:  newSpans("bytes of card memory for rings (Bytes of queue.Config)", space.Address(0), config.Bytes),
		mtt:     newSpans("entries of the MTT", 0, regs.MttCount),
		regions: newSpans("memory regions", 0, regs.MrCount),
		cqs:     newSpans("completion queues", 0, regs.CqCount),
		qps:     newSpans("queue pairs", firstQP, regs.QpCount-firstQP),
		groups:  newSpans("distribution groups", 0, regs.DistributionCount),
		lastKey: map[uint64]uint32{},
	}, nil
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

// Close returns the memory of the rings. All queues must have been destroyed: the card would go on
// to use theirs.
func (d *Device) Close() error {
	if err := d.space.Free(); err != nil {
		return err
	}
	d.card.ReturnQueues()
	return nil
}

// Card returns the card.
func (d *Device) Card() *hwoffload.Card { return d.card }

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

// AllocPD returns the number of a new protection domain. A card keeps no state for it, so it is
// not freed.
func (d *Device) AllocPD() uint32 {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.pds++
	return d.pds
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
	if base, err = d.take(&d.memory, size, ringAlign); err != nil {
		return 0, err
	}
	if err = d.clear(base, size); err != nil {
		d.give(&d.memory, base, size)
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
