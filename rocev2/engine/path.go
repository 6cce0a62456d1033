// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2"
)

// PathState is how to reach a destination at one moment. It never changes; when the
// network does, the path gets another one.
type PathState struct {
	Err error // nil if packets can be sent; the other fields may be partial if not

	Src, Dst netip.Addr // no zone, IPv4 never as IPv6
	NextHop  netip.Addr // Dst itself, or a gateway; of IPv4 it may be an IPv6 address

	SrcMAC, DstMAC [6]byte
	Ether          [14]byte // the whole Ethernet header: both MACs, Ethertype, no VLAN tag

	// Port sends what goes by the path. nil: one of the interface's.
	Port Port
	// Entry is the entry of the destination. Paths to one address with other entries lead to other destinations.
	// nil: the core reports the destination, and takes replies. The core asks for it when the path is connected.
	Entry Entry

	MTU  int         // bytes of IP: the link's, or less if the route says so
	PMTU rocev2.PMTU // largest that fits MTU

	// Loopback is set for the interface's own addresses: no switch sends a frame back
	// to where it came from, so the engine must hand it to itself.
	Loopback bool
}

// Exceeds reports whether a datagram of n bytes is longer than the path's PMTU, which is not valid without a path.
func (s *PathState) Exceeds(n uint64) bool { return s.PMTU.Valid() && n > uint64(s.PMTU.Bytes()) }

// portTo returns the port by which the path leads to a destination.
func (s *PathState) portTo(d *dest) Port {
	if s.Port != nil {
		return s.Port
	}
	return d.port
}

// Path leads to one destination. The program follows the network and sets the state of the path, in any goroutine. A core
// loads it for every packet.
type Path struct {
	current atomic.Pointer[PathState]
	release func()
}

// NewPath returns a path in a state. release is called by Release, and may be nil.
func NewPath(s *PathState, release func()) *Path {
	p := &Path{release: release}
	p.Set(s)
	return p
}

// OnRelease sets what Release calls.
func (p *Path) OnRelease(f func()) { p.release = f }

// Current returns the path's state, never nil. It is one atomic load.
func (p *Path) Current() *PathState { return p.current.Load() }

// Set gives the path another state.
func (p *Path) Set(s *PathState) { p.current.Store(s) }

// Release gives the path back. It may take long, so no core calls it: the core returns the paths that it does not use any
// more, and the program releases them.
func (p *Path) Release() {
	if p.release != nil {
		p.release()
	}
}
