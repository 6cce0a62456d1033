// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Config is the configuration of the driver "server" of package rdma.
type Config struct {
	RunDir string // folder of the server's sockets; default proto.DefaultRunDir

	// Spin is how long CQ.Wait polls before it sleeps: latency against CPU time. Default 20 us;
	// negative means never. While completions take longer than that, one in up to 32 waits polls; the
	// others sleep at once.
	Spin time.Duration

	// ArenaBytes is how much memory Alloc takes from the system at once; default 64 MiB. Pages that
	// are not used take no memory.
	ArenaBytes int

	// OpenLimit is how long Open waits for the server, whatever its context allows; default 30 s. The
	// server lets a process wait whose user is over the rate of control messages, but not so long.
	OpenLimit time.Duration
}

// ErrNoAnswer: the server has its socket, but did not answer Open within Config.OpenLimit. It is rdma.ErrNoAnswer too.
var ErrNoAnswer = errors.New("the device server does not answer")

// Device is the device of an interface, of this process. It implements verbs.Device.
type Device struct {
	conf   Config
	name   string
	conn   *net.UnixConn
	limits verbs.Limits

	statusPage ring.StatusPage
	doorbell   ring.Doorbell
	maps       [][]byte
	wake       int      // eventfd that ends the server's sleep
	signal     *os.File // readable when a completion queue was signalled

	// posts counts work requests. What a goroutine wrote before it posted is visible to another one
	// that polls the completion. The words of the rings order that, but the two have different
	// addresses, so Go's memory model, and the race detector, know of no order without posts.
	posts atomic.Uint32

	calls  calls
	slots  chan struct{} // full while the server executes as many calls that wait as it takes
	cm     connections
	arena  arenas
	memory memory

	regions regions

	dead   chan struct{} // closed when the device is of no further use
	why    atomic.Pointer[error]
	closed atomic.Bool
	ends   sync.WaitGroup // goroutines that have not ended

	mu      sync.Mutex
	cqs     map[uint32]*CQ
	qps     map[uint32]*QP
	srqs    map[uint32]*SRQ
	events  chan verbs.Event
	noEvent bool            // events is closed
	counted []verbs.Counter // result of the last call of Counters
}

var _ verbs.Device = (*Device)(nil)

// eventBacklog is how many events are kept for an application that does not receive them.
const eventBacklog = 1024

// Open opens the device of an interface.
func Open(ctx context.Context, ifname string, c Config) (_ *Device, err error) {
	if c.Spin == 0 {
		c.Spin = 20 * time.Microsecond
	}
	if c.ArenaBytes == 0 {
		c.ArenaBytes = 64 << 20
	}
	if c.OpenLimit == 0 {
		c.OpenLimit = 30 * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.OpenLimit, ErrNoAnswer)
	defer cancel()
	path := proto.SocketPath(c.RunDir, ifname)
	conn, err := proto.Dial(ctx, path)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("open the device of %s: no device server at %s: run `softroce-xdp attach --nic %s`: %w", ifname, path, ifname, err)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("open the device of %s: this user may not write to %s: ask for `attach --nic-group` or `--nic-mode`: %w", ifname, path, err)
	case err != nil:
		return nil, fmt.Errorf("open the device of %s: %w", ifname, cmp.Or(context.Cause(ctx), err))
	}
	d := &Device{
		conf: c, name: ifname, conn: conn, dead: make(chan struct{}), wake: -1,
		slots: make(chan struct{}, proto.MaxWaiting),
		cqs:   map[uint32]*CQ{}, qps: map[uint32]*QP{}, srqs: map[uint32]*SRQ{}, events: make(chan verbs.Event, eventBacklog),
	}
	d.calls.waiting = map[uint32]chan answer{}
	stop := context.AfterFunc(ctx, func() { d.conn.Close() })
	d.ends.Go(d.read)
	err = d.hello()
	if !stop() { // hello has failed because the connection was closed for the context
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("open the device of %s: %w", ifname, err)
	}
	d.ends.Go(d.readSignals)
	return d, nil
}

// hello exchanges the first messages and maps what server and process share.
func (d *Device) hello() error {
	var r proto.HelloReply
	fds, err := d.call(proto.THello, &proto.Hello{Magic: proto.Magic, Version: proto.Version}, &r)
	if err != nil {
		return err
	}
	if len(fds) != proto.HelloFDs {
		proto.CloseFDs(fds)
		return fmt.Errorf("%w: %d of %d have arrived", proto.ErrDescriptors, len(fds), proto.HelloFDs)
	}
	d.limits = verbs.Limits{
		CQ: int(r.CQ), WR: int(r.WR), SGE: int(r.SGE), Inline: int(r.MaxInline), MaxRdAtomic: int(r.MaxRdAtomic), QPs: int(r.QPs), CQs: int(r.CQs),
		SRQs: int(r.SRQs), MRs: int(r.MRs), MWs: int(r.MWs), AHs: int(r.AHs), RegionBytes: r.RegionBytes,
	}
	d.wake = fds[2]
	d.signal = os.NewFile(uintptr(fds[3]), "signals")
	defer proto.CloseFDs(fds[:2])
	statusPage, err := unix.Mmap(fds[0], 0, ring.StatusPageBytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the server's statusPage: %w", err)
	}
	d.maps = append(d.maps, statusPage)
	doorbell, err := unix.Mmap(fds[1], 0, ring.DoorbellBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the doorbell: %w", err)
	}
	d.maps = append(d.maps, doorbell)
	if d.statusPage, err = ring.OpenStatusPage(statusPage); err != nil {
		return err
	}
	d.doorbell, err = ring.OpenDoorbell(doorbell)
	return err
}

// ring tells the server that a queue has new entries, unless it looks by itself. The caller holds a
// lock of the queue, under which the queue and so the device are open. It has published the entries.
func (d *Device) ring(queue uint32, r *ring.Producer) {
	if r.Watched().Load() == 0 {
		d.doorbell.Set(queue)
	}
	if d.statusPage.Sleeps(queue) {
		_, _ = unix.Write(d.wake, oneSignal)
	}
}

var oneSignal = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// alive returns nil, or why the device is of no further use.
func (d *Device) alive() error {
	if err := d.why.Load(); err != nil {
		return *err
	}
	return nil
}

// Limits implements verbs.Device.
func (d *Device) Limits() verbs.Limits { return d.limits }

// Port implements verbs.Device.
func (d *Device) Port() (verbs.Port, error) {
	var r proto.PortReply
	if err := d.plain(proto.TPort, nil, &r); err != nil {
		return verbs.Port{}, err
	}
	p := verbs.Port{
		Active: r.Active != 0, MTU: int(r.MTU), RateBps: uint64(r.Mbps) * 1e6, MAC: r.MAC, GIDs: make([]netip.Addr, min(r.Count, proto.MaxGIDs)),
	}
	for i := range p.GIDs {
		p.GIDs[i] = r.GIDs[i].IP()
	}
	return p, nil
}

// Events implements verbs.Device.
func (d *Device) Events() <-chan verbs.Event { return d.events }

// event delivers an event without blocking. The oldest are lost.
func (d *Device) event(e verbs.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !d.noEvent {
		select {
		case d.events <- e:
			return
		default:
		}
		select {
		case <-d.events:
		default:
		}
	}
}

// fail ends the device.
func (d *Device) fail(why error) {
	if !d.why.CompareAndSwap(nil, &why) {
		return
	}
	close(d.dead)
	d.conn.Close()
	if !errors.Is(why, verbs.ErrClosed) {
		d.event(verbs.Event{Type: verbs.EventDeviceFatal, Err: why})
	}
}

// Close implements verbs.Device. The server frees all that this process had.
func (d *Device) Close() error {
	if !d.closed.CompareAndSwap(false, true) {
		return nil
	}
	d.fail(verbs.ErrClosed)
	if d.signal != nil {
		_ = d.signal.SetReadDeadline(time.Now()) // ends readSignals
	}
	d.ends.Wait()
	d.closeSignal()
	d.mu.Lock()
	d.noEvent = true
	close(d.events)
	var all []interface{ unmap() }
	for _, q := range d.qps {
		all = append(all, q)
	}
	for _, q := range d.srqs {
		all = append(all, q)
	}
	for _, q := range d.cqs {
		all = append(all, q)
	}
	d.mu.Unlock()
	for _, q := range all {
		q.unmap()
	}
	for _, m := range d.maps {
		_ = unix.Munmap(m)
	}
	if d.wake >= 0 {
		unix.Close(d.wake)
	}
	return d.arena.close()
}
