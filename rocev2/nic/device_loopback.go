// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The addresses of a loopback device: its GIDs.
var loopbackGIDs = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// loopbackMTU is the MTU of a loopback device: the largest PMTU fits, encrypted too.
const loopbackMTU = 4096 + rocev2.PMTUOverhead + seal.Overhead

// OpenLoopback makes a device without interface, sockets and data plane, which needs no
// privileges. Its queue pairs reach each other, at the addresses 127.0.0.1 and ::1. The
// engine is the same: packets are built and parsed. They have no ICRC, as all that an engine sends itself.
func OpenLoopback(o Options) (_ *Device, err error) {
	if o.PreCredit || o.Interface != "" {
		return nil, fmt.Errorf("nic: a loopback device has no interface and no pre-credit")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	d := &Device{opts: o.withDefaults(), allow: o.Allow, dataplane: noDataplane{}, mtu: loopbackMTU, done: make(chan struct{}), events: make(chan verbs.Event, eventBacklog)}
	if d.mem, err = mr.New(mr.Config{Keys: o.Keys}); err != nil {
		return nil, err
	}
	if d.eng, err = newRunner(d); err != nil {
		return nil, err
	}
	d.eng.start()
	return d, nil
}

// loopbackPath returns the path from a loopback device to itself.
func loopbackPath(src, dst netip.Addr) (*route.Path, error) {
	src, dst = src.Unmap(), dst.Unmap()
	if !src.IsValid() {
		src = dst
	}
	if !dst.IsLoopback() || !src.IsLoopback() {
		return nil, fmt.Errorf("nic: from %s to %s: %w; a loopback device has %s and %s only", src, dst, route.ErrNoRoute, loopbackGIDs[0], loopbackGIDs[1])
	}
	etherType := [2]byte{8, 0}
	if dst.Is6() {
		etherType = [2]byte{0x86, 0xDD}
	}
	return route.Fixed(route.State{
		Src: src, Dst: dst, Ether: [etherLen]byte{12: etherType[0], 13: etherType[1]},
		MTU: loopbackMTU, PMTU: rocev2.PMTU4096, Loopback: true,
	}), nil
}

// noDataplane is the data plane of a loopback device: nothing is steered, nothing is paced.
type noDataplane struct{}

func (noDataplane) Register(int, int) error        { return nil }
func (noDataplane) Steer(uint32) error             { return nil }
func (noDataplane) Unsteer(uint32) error           { return nil }
func (noDataplane) SteerMAD(cm.Steer) error        { return nil }
func (noDataplane) RuntimeConfig() RuntimeConfig   { return RuntimeConfig{} }
func (noDataplane) Sync(d []DestSync) (int, error) { return len(d), nil }
func (noDataplane) Close() error                   { return nil }
