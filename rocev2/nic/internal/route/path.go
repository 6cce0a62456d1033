// SPDX-License-Identifier: Apache-2.0

package route

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/engine"
)

// Why a path cannot be used. State.Err wraps one of them.
var (
	ErrPending   = errors.New("the neighbour has not answered yet")
	ErrNeighbour = errors.New("the neighbour does not answer")
	ErrNotAsked  = errors.New("the kernel does not look for the neighbour")
	ErrNoRoute   = errors.New("no route")
	ErrSource    = errors.New("no such source address")
	ErrAddress   = errors.New("not an address to send to")
	ErrMTU       = errors.New("MTU too small")
	ErrDown      = errors.New("the interface is down")
	ErrGone      = errors.New("the interface no longer exists")
	ErrClosed    = errors.New("closed")
)

// State is how to reach a destination at one moment. It never changes; when the
// network does, the path gets another one.
type State = engine.PathState

// pathKey names a path; without src the kernel chooses the source.
type pathKey struct{ src, dst netip.Addr }

// Path leads to one destination and follows the network. Release it when done.
type Path struct {
	engine.Path // the current state
	table       *Table
	key         pathKey

	// Guarded by the table's lock.
	refs    int
	base    State         // all but what the neighbour decides
	hop     *hop          // nil if no neighbour is needed or base.Err is set
	changed chan struct{} // closed with the next state
}

// Wait returns the state as soon as it is either usable or failed, with State.Err;
// or the context's error. A failed path goes on trying: later it may be usable.
func (p *Path) Wait(ctx context.Context) (*State, error) {
	for {
		p.table.mu.Lock()
		s, changed := p.Current(), p.changed
		p.table.mu.Unlock()
		if !errors.Is(s.Err, ErrPending) {
			return s, s.Err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return s, fmt.Errorf("route: to %s: %w (%w)", p.key.dst, ctx.Err(), ErrPending)
		}
	}
}

// Release gives the path back. After as many calls as Resolve returned it, the
// path follows nothing any more.
func (p *Path) Release() {
	t := p.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.refs <= 0 {
		panic("route: path released more often than resolved")
	}
	if p.refs--; p.refs > 0 {
		return
	}
	delete(t.paths, p.key)
	t.leaveHop(p)
}

// Resolve returns the path to dst with the source address that the kernel would
// choose. If the neighbour is unknown, or has not answered before, it is asked for: the state's Err
// is ErrPending until it answers, also for other paths through it. An error means that there will never be a path;
// what may change later (no route, link down) is in the path's state. IPv4
// addresses may come v4-mapped, as GIDs.
func (t *Table) Resolve(dst netip.Addr) (*Path, error) {
	return t.resolve(pathKey{dst: dst.Unmap()})
}

// ResolveFrom is Resolve with a given source address of the interface: a queue pair's
// GID. While the interface does not have it, the state's Err is ErrSource.
func (t *Table) ResolveFrom(src, dst netip.Addr) (*Path, error) {
	key := pathKey{src: src.Unmap(), dst: dst.Unmap()}
	if !src.IsValid() || key.src.Is4() != key.dst.Is4() {
		return nil, fmt.Errorf("route: from %s to %s: %w: both must be IPv4 or both IPv6", src, dst, ErrAddress)
	}
	return t.resolve(key)
}

// WouldAsk reports whether Resolve would have the kernel look for a neighbour that it does not know. It sends nothing.
func (t *Table) WouldAsk(src, dst netip.Addr) bool {
	key := pathKey{src: src.Unmap().WithZone(""), dst: dst.Unmap().WithZone("")}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.paths[key]; p != nil {
		return p.hop != nil && p.hop.failed() && !p.hop.asking
	}
	s, next := t.look(key)
	if s.Err != nil || s.Loopback {
		return false
	}
	if h := t.hops[next]; h != nil {
		return h.failed() && !h.asking
	}
	n, err := t.kernel.neighbour(next)
	return err == nil && n.state&usable == 0
}

func (t *Table) resolve(key pathKey) (*Path, error) {
	key.src, key.dst = key.src.WithZone(""), key.dst.WithZone("") // the interface is the zone
	switch dst := key.dst; {
	case !dst.IsValid() || dst.IsUnspecified():
		return nil, fmt.Errorf("route: to %s: %w", dst, ErrAddress)
	case dst.IsMulticast() || dst == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return nil, fmt.Errorf("route: to %s: %w: multicast and broadcast are not supported", dst, ErrAddress)
	case dst.IsLoopback():
		return nil, fmt.Errorf("route: to %s: %w: use an address of %s for loopback", dst, ErrAddress, t.name)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, fmt.Errorf("route: to %s: %w", key.dst, ErrClosed)
	}
	p := t.paths[key]
	if p == nil {
		p = &Path{table: t, key: key, changed: make(chan struct{})}
		p.OnRelease(p.Release)
		t.paths[key] = p
		t.evaluate(p)
	} else if p.hop != nil {
		t.retry(p.hop)
	}
	p.refs++
	return p, nil
}

// evaluate asks the kernel anew how to reach the path's destination.
func (t *Table) evaluate(p *Path) {
	base, next := t.look(p.key)
	p.base = base
	if base.Err != nil || base.Loopback {
		t.leaveHop(p)
	} else {
		t.joinHop(p, next)
	}
	p.publish()
}

// look returns all of a path's state but the neighbour's MAC, and the next hop.
func (t *Table) look(key pathKey) (s State, next netip.Addr) {
	link := t.Link()
	s = State{Src: key.src, Dst: key.dst, SrcMAC: link.MAC, MTU: link.MTU}
	fail := func(err error) (State, netip.Addr) {
		s.Err = fmt.Errorf("route: to %s through %s: %w", key.dst, t.name, err)
		return s, netip.Addr{}
	}
	switch {
	case t.closed:
		return fail(ErrClosed)
	case link.Gone:
		return fail(ErrGone)
	case !link.Up:
		return fail(fmt.Errorf("%w: ip link set %s up", ErrDown, t.name))
	case key.src.IsValid() && !t.gids.has(key.src):
		return fail(fmt.Errorf("%w: %s is not on %s", ErrSource, key.src, t.name))
	}
	if t.gids.has(key.dst) {
		s.Loopback, s.NextHop, s.DstMAC = true, key.dst, s.SrcMAC
		if !s.Src.IsValid() {
			s.Src = key.dst
		}
	} else {
		r, err := t.kernel.route(key)
		if err != nil {
			return fail(err)
		}
		s.Src, s.NextHop = r.src, r.next
		if r.mtu > 0 {
			s.MTU = min(s.MTU, r.mtu)
		}
	}
	pmtu, ok := rocev2.PMTUForMTU(s.MTU)
	if !ok {
		return fail(fmt.Errorf("%w: %d bytes, RoCEv2 needs %d", ErrMTU, s.MTU, rocev2.PMTU256.Bytes()+rocev2.PMTUOverhead))
	}
	s.PMTU = pmtu
	return s, s.NextHop
}

// publish makes the state of base and hop the current one.
func (p *Path) publish() {
	s := p.base
	if p.hop != nil {
		s.DstMAC, s.Err = p.hop.mac, p.hop.err
	}
	copy(s.Ether[0:6], s.DstMAC[:])
	copy(s.Ether[6:12], s.SrcMAC[:])
	etherType := [2]byte{0x08, 0x00}
	if s.Dst.Is6() {
		etherType = [2]byte{0x86, 0xdd}
	}
	copy(s.Ether[12:14], etherType[:])
	if old := p.Current(); old != nil && *old == s {
		return
	}
	p.Set(&s)
	close(p.changed)
	p.changed = make(chan struct{})
}
