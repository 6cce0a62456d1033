// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Config says what a Device uses of a card.
type Config struct {
	// Addrs are the GIDs: the addresses of the card, IPv4 or IPv6.
	Addrs []netip.Addr

	// Port is the port of the card whose state Port returns, 0 to 3. Resolve selects the ports
	// that send.
	Port int

	// Resolve returns the way to a peer. It is called when a queue pair is connected, and for
	// an address handle. nil: every peer is refused.
	Resolve func(dst netip.Addr) (Hop, error)

	// RingBytes is how much of the DDR is for rings and address handles; 0 is 16 MB. It is reserved
	// from the card's Allocator, in one bank.
	RingBytes uint64

	// Page is the page of doorbells that the Device uses, 0 to 15.
	Page int
}

const defaultRingBytes = 16 << 20

// Hop is the way to a peer.
type Hop struct {
	MAC  [6]byte // MAC of the next hop
	Node int     // number of the peer in block nodes, whose port sends; 0: Port
	Port int     // 0 to 3
}

// Device is a card as a verbs.Device. One Device uses a card at a time.
type Device struct {
	card   *hwoffload.Card
	config Config
	space  *hwoffload.Space // free space of memory
	events chan verbs.Event
	closed chan struct{}
	serves bool           // a goroutine handles interrupts
	ended  sync.WaitGroup // group of that goroutine

	lock    sync.Mutex // guards what follows, and uses of all objects; no other lock is taken under it
	down    bool       // Close was called
	failed  bool       // EventDeviceFatal was sent
	objects map[object]struct{}
	cqs     map[uint32]*CQ // completion queues by number
	qps     map[uint32]*QP
	srqs    map[uint32]*SRQ
	nextVA  uint64
	free    resources
}

var _ verbs.Device = (*Device)(nil)

// object is what a device makes. close ends it, whatever uses it.
type object interface {
	order() int // Close ends objects with a lower order first
	close() error
}

// Open makes a device of a card that no other driver uses for queues.
func Open(c *hwoffload.Card, config Config) (*Device, error) {
	if !regs.IdentOf(c).Capabilities().QueuePairs() {
		return nil, fmt.Errorf("card: %w: this card has no queue pairs: it is no RDMA device", errors.ErrUnsupported)
	}
	d, err := New(c, config)
	if err != nil {
		return nil, err
	}
	d.setMask(true)
	if err := c.Err(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.serves = true
	d.ended.Go(d.run)
	return d, nil
}

// New makes a device that leaves the card's interrupts to the caller: it sends no events, and signals
// no Notify. It is for cards that have no queue pairs too. A card has one device at a time: the error
// wraps verbs.ErrBusy if another one was not closed.
func New(c *hwoffload.Card, config Config) (*Device, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if !c.TakeQueues() {
		return nil, fmt.Errorf("card: its queues are %w: another driver.Device has them: share or close it", verbs.ErrBusy)
	}
	space, err := reserve(c.Allocator(), config.RingBytes)
	if err != nil {
		c.ReturnQueues()
		return nil, fmt.Errorf("card: memory for rings: %w", err)
	}
	return &Device{
		card: c, config: config, space: space, free: newResources(space, config.RingBytes),
		events: make(chan verbs.Event, eventsKept), closed: make(chan struct{}), nextVA: firstVA,
		objects: map[object]struct{}{}, cqs: map[uint32]*CQ{}, qps: map[uint32]*QP{}, srqs: map[uint32]*SRQ{},
	}, nil
}

// check refuses what is wrong, and sets what is not set.
func (c *Config) check() error {
	if c.Port < 0 || c.Port >= regs.PortsCount {
		return fmt.Errorf("card: port %d: the card has ports 0 to %d", c.Port, regs.PortsCount-1)
	}
	if c.Page < 0 || c.Page >= regs.DoorbellsCount {
		return fmt.Errorf("card: page %d of doorbells: use 0 to %d", c.Page, regs.DoorbellsCount-1)
	}
	for i, a := range c.Addrs {
		if !a.IsValid() {
			return fmt.Errorf("card: address %d is not valid: give IP addresses of the card", i)
		}
	}
	if c.RingBytes == 0 {
		c.RingBytes = defaultRingBytes
	}
	c.Addrs = slices.Clone(c.Addrs)
	return nil
}

// AgentTable returns the card.
func (d *Device) Card() *hwoffload.Card { return d.card }

// Limits implements verbs.Device.
func (d *Device) Limits() verbs.Limits {
	return verbs.Limits{CQ: MaxDepth, WR: MaxDepth, SGE: min(MaxSendSGE, MaxRecvSGE), Inline: MaxInline, MaxRdAtomic: qp.MaxRdAtomic}
}

// Port implements verbs.Device.
func (d *Device) Port() (verbs.Port, error) {
	if err := d.err(); err != nil {
		return verbs.Port{}, err
	}
	e := regs.PortsOf(d.card, d.config.Port)
	p := verbs.Port{
		Active: e.Control().Enable() && e.Status().Link(), MTU: int(e.Mtu().Bytes()), RateBps: uint64(e.SpeedMbps()) * 1e6,
		GIDs: slices.Clone(d.config.Addrs),
	}
	return p, d.card.Err()
}

// Events implements verbs.Device.
func (d *Device) Events() <-chan verbs.Event { return d.events }

// err returns why the device is of no use, or nil.
func (d *Device) err() error {
	select {
	case <-d.closed:
		return verbs.ErrClosed
	default:
		return d.card.Err()
	}
}

// source completes an address vector: without an own address it gets the first GID of the family.
func (d *Device) source(av *verbs.AddressVector) error {
	av.Dst = av.Dst.Unmap()
	if av.Src.IsValid() {
		av.Src = av.Src.Unmap()
		return nil
	}
	for _, a := range d.config.Addrs {
		if a.Unmap().Is4() == av.Dst.Is4() {
			av.Src = a.Unmap()
			return nil
		}
	}
	return fmt.Errorf("card: no address of the family of %v: give one in Config.Addrs", av.Dst)
}

// add keeps an object until remove. A device that was closed keeps none.
func (d *Device) add(o object, uses ...*int) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.down {
		return verbs.ErrClosed
	}
	d.objects[o] = struct{}{}
	for _, n := range uses {
		*n++
	}
	return nil
}

// remove forgets an object, if nothing uses it (used), and returns whether it was there.
func (d *Device) remove(o object, what string, used *int) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	if _, there := d.objects[o]; !there {
		return fmt.Errorf("card: the %s %w", what, verbs.ErrDestroyed)
	}
	if used != nil && *used > 0 {
		return fmt.Errorf("card: the %s is %w: %d objects use it", what, verbs.ErrBusy, *used)
	}
	delete(d.objects, o)
	return nil
}

// release counts down uses.
func (d *Device) release(uses ...*int) {
	d.lock.Lock()
	defer d.lock.Unlock()
	for _, n := range uses {
		*n--
	}
}

// Close implements verbs.Device. It ends all objects of the device and gives their memory back.
func (d *Device) Close() error {
	d.lock.Lock()
	if d.down {
		d.lock.Unlock()
		return verbs.ErrClosed
	}
	d.down = true
	var all []object
	for o := range d.objects {
		all = append(all, o)
	}
	clear(d.objects)
	d.lock.Unlock()
	close(d.closed)
	d.ended.Wait()
	close(d.events)
	slices.SortFunc(all, func(a, b object) int { return a.order() - b.order() })
	var failed error
	for _, o := range all {
		failed = errors.Join(failed, o.close())
	}
	if d.serves {
		d.setMask(false)
	}
	if err := d.space.Free(); err != nil {
		return errors.Join(failed, err)
	}
	d.card.ReturnQueues()
	return failed
}
