// SPDX-License-Identifier: Apache-2.0

package verbsdev

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/queue"
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

	// Resolve returns the way to a peer, see queue.Config.
	Resolve func(dst netip.Addr) (queue.Hop, error)

	// RingBytes is how much card memory is for queues; 0 is 16 MB.
	RingBytes uint64

	// Page is the page of doorbells that the Device uses, 0 to 15.
	Page int
}

const defaultRingBytes = 16 << 20

// Device is a card as a verbs.Device. One Device uses a card at a time.
type Device struct {
	card   *hwoffload.Card
	q      *queue.Device
	config Config
	events chan verbs.Event
	closed chan struct{}
	ended  sync.WaitGroup // the goroutine of interrupts

	lock    sync.Mutex // guards what follows, and uses of all objects; no other lock is taken under it
	down    bool       // Close was called
	failed  bool       // EventDeviceFatal was sent
	objects map[object]struct{}
	cqs     map[uint32]*CQ // by number
	qps     map[uint32]*QP
	srqs    map[uint32]*SRQ
	nextVA  uint64
}

var _ verbs.Device = (*Device)(nil)

// object is what a device makes. close ends it, whatever uses it.
type object interface {
	order() int // Close ends objects with a lower order first
	close() error
}

// Open makes a device of a card that no other driver uses for queues.
func Open(c *hwoffload.Card, config Config) (*Device, error) {
	if config.Port < 0 || config.Port >= regs.PortsCount {
		return nil, fmt.Errorf("card: port %d: the card has ports 0 to %d", config.Port, regs.PortsCount-1)
	}
	if !regs.IdentOf(c).Capabilities().QueuePairs() {
		return nil, fmt.Errorf("card: %w: this card has no queue pairs: it is no RDMA device", errors.ErrUnsupported)
	}
	if config.RingBytes == 0 {
		config.RingBytes = defaultRingBytes
	}
	for i, a := range config.Addrs {
		if !a.IsValid() {
			return nil, fmt.Errorf("card: address %d is not valid: give IP addresses of the card", i)
		}
	}
	q, err := queue.New(c, queue.Config{Bytes: config.RingBytes, Resolve: config.Resolve, Page: config.Page})
	if err != nil {
		return nil, err
	}
	d := &Device{
		card: c, q: q, config: config, events: make(chan verbs.Event, eventsKept), closed: make(chan struct{}), nextVA: firstVA,
		objects: map[object]struct{}{}, cqs: map[uint32]*CQ{}, qps: map[uint32]*QP{}, srqs: map[uint32]*SRQ{},
	}
	d.config.Addrs = slices.Clone(config.Addrs)
	d.setMask(true)
	if err := c.Err(); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	d.ended.Go(d.run)
	return d, nil
}

// Queue returns the driver of the card's queues, for what package verbs does not have: ports, nodes,
// distribution groups, and tasks.
func (d *Device) Queue() *queue.Device { return d.q }

// Limits implements verbs.Device.
func (d *Device) Limits() verbs.Limits {
	return verbs.Limits{CQ: queue.MaxDepth, WR: queue.MaxDepth, SGE: min(queue.MaxSendSGE, queue.MaxRecvSGE), Inline: queue.MaxInline, MaxRdAtomic: qp.MaxRdAtomic}
}

// Port implements verbs.Device.
func (d *Device) Port() (verbs.Port, error) {
	if err := d.err(); err != nil {
		return verbs.Port{}, err
	}
	e := regs.PortsOf(d.card, d.config.Port)
	p := verbs.Port{Active: e.Control().Enable() && e.Status().Link(), MTU: int(e.Mtu().Bytes()), GIDs: slices.Clone(d.config.Addrs)}
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
	d.setMask(false)
	return errors.Join(failed, d.q.Close())
}
