// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a table. The zero value is usable.
type Options struct {
	// ResolveTimeout is how long a neighbour may be silent before its paths fail. 0
	// means 5 s; by default the kernel gives up after 3.
	ResolveTimeout time.Duration

	// OnEvent is told what changed, in order, by one goroutine that holds no
	// lock. What is there when Open returns is not told.
	OnEvent func(Event)
}

// EventKind says what changed.
type EventKind uint8

// The kinds of events.
const (
	GIDAdded    EventKind = iota + 1 // Index, Addr
	GIDRemoved                       // Index, Addr
	LinkChanged                      // Link
)

// Event is a change of the interface.
type Event struct {
	Kind  EventKind
	Index int        // index of the GID
	Addr  netip.Addr // address of the GID
	Link  Link       // current state
}

// Link is the interface's own state.
type Link struct {
	Name    string
	MAC     [6]byte
	MTU     int  // bytes of IP
	Up      bool // the administrator has set the link up
	Carrier bool // paths stay usable without: it may be a short flap
	Gone    bool // deleted, or moved to another namespace; all else is zero
}

// Table resolves destinations through one interface. Methods may be called by any
// goroutine.
type Table struct {
	name   string // name under which the interface was opened
	opts   Options
	kernel *kernel

	link    atomic.Pointer[Link]
	gidList atomic.Pointer[gidTable]

	mu     sync.Mutex // guards what follows
	gids   gidTable
	paths  map[pathKey]*Path
	hops   map[netip.Addr]*hop
	stale  bool // something changed that must be asked for again
	lost   bool // messages were lost
	events []Event
	closed bool

	wake chan struct{}
	done chan struct{}
	wg   sync.WaitGroup
}

// Open starts to follow the interface in the network namespace of the calling thread,
// and goes on doing so wherever the thread goes. The interface must be Ethernet.
func Open(ifName string, opts Options) (*Table, error) {
	if opts.ResolveTimeout < 0 {
		return nil, fmt.Errorf("route: resolve timeout of %v", opts.ResolveTimeout)
	}
	if opts.ResolveTimeout == 0 {
		opts.ResolveTimeout = 5 * time.Second
	}
	k, link, err := openKernel(ifName)
	if err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	t := &Table{
		name: ifName, opts: opts, kernel: k,
		paths: map[pathKey]*Path{}, hops: map[netip.Addr]*hop{},
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	t.link.Store(&link)
	addrs, err := k.addrs()
	if err != nil {
		k.close()
		return nil, fmt.Errorf("route: addresses of %s: %w", ifName, err)
	}
	t.gids, _ = t.gids.update(addrs)
	t.storeGIDs()
	t.wg.Go(t.listen)
	t.wg.Go(t.work)
	return t, nil
}

// Close ends all following. Paths stay as they are but for their Err, which becomes
// ErrClosed. It must not be called from OnEvent.
func (t *Table) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	for _, p := range t.paths {
		t.evaluate(p)
	}
	t.mu.Unlock()
	close(t.done)
	t.kernel.news.Close()
	t.wg.Wait()
	t.kernel.close()
	return nil
}

// Link returns the interface's state. It takes no lock.
func (t *Table) Link() Link { return *t.link.Load() }

// GIDs returns the interface's addresses by GID index, IPv4 as IPv4; As16 makes the
// v4-mapped GID. Index 0 is the IPv6 link-local address. An address that is not valid
// is a free index. It takes no lock; the slice must not be written to.
func (t *Table) GIDs() []netip.Addr { return *t.gidList.Load() }

// GID returns the address with an index; false if there is none.
func (t *Table) GID(index int) (netip.Addr, bool) {
	g := t.GIDs()
	if index < 0 || index >= len(g) {
		return netip.Addr{}, false
	}
	return g[index], g[index].IsValid()
}

func (t *Table) storeGIDs() {
	g := slices.Clip(t.gids)
	t.gidList.Store(&g)
}

// joinHop makes the path follow the next hop, which is asked for if it is new.
func (t *Table) joinHop(p *Path, next netip.Addr) {
	if p.hop != nil && p.hop.addr == next {
		return
	}
	t.leaveHop(p)
	h := t.hops[next]
	if h == nil {
		now := time.Now()
		h = newHop(next, t.name, t.opts.ResolveTimeout, now)
		t.hops[next] = h
		t.ask(h, now)
		t.poke()
	} else {
		t.retry(h)
	}
	h.paths[p] = struct{}{}
	p.hop = h
}

func (t *Table) leaveHop(p *Path) {
	if p.hop == nil {
		return
	}
	delete(p.hop.paths, p)
	if len(p.hop.paths) == 0 {
		delete(t.hops, p.hop.addr)
	}
	p.hop = nil
}

// ask looks a neighbour up and has the kernel resolve or confirm it if need be.
func (t *Table) ask(h *hop, now time.Time) {
	n, err := t.kernel.neighbour(h.addr)
	if err == nil && h.onNeighbour(n, now) {
		err = t.kernel.use(h.addr)
		h.onUsed(now, err)
	} else if err != nil {
		h.onUsed(now, err)
	}
	for p := range h.paths {
		p.publish()
	}
}

// retry has the kernel look again for a neighbour that has failed: what asks for it now waits for an answer of now.
func (t *Table) retry(h *hop) {
	if !h.failed() {
		return
	}
	if now := time.Now(); h.restart(now) {
		t.ask(h, now)
		t.poke()
		return
	}
	for p := range h.paths {
		p.publish()
	}
}

// poke makes the worker look at what is due.
func (t *Table) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
