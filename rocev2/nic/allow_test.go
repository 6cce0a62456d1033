// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var (
	peer  = netip.MustParseAddr("10.0.0.2")
	alien = netip.MustParseAddr("10.0.0.3")
)

// There is no path to a host that is not allowed: no address handle, no queue pair and no connection can have one. The
// error says so at once. The addresses of the device itself are allowed.
func TestAllowedPaths(t *testing.T) {
	d, err := OpenLoopback(Options{Allow: []netip.Prefix{netip.PrefixFrom(peer, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := d.OpenCM()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	go func() {
		for range s.Events() { // until Close
		}
	}()
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	connect := func(to netip.Addr) error {
		_, err := s.Connect(cm.ConnectParams{Local: loopbackGIDs[0], Peer: to, Service: mad.IPServiceID(mad.PortTCP, 7), SrcPort: 9, QPN: 5, Attr: verbs.DefaultAttr()})
		return err
	}
	resolve := func(to netip.Addr) error {
		_, err := s.Resolve(cm.ResolveParams{Local: loopbackGIDs[0], Peer: to, Service: mad.IPServiceID(mad.PortUDP, 7), SrcPort: 9})
		return err
	}
	handle := func(to netip.Addr) error {
		_, err := pd.CreateAH(verbs.AddressVector{Dst: to})
		return err
	}
	path := func(to netip.Addr) error {
		_, err := d.resolve(netip.Addr{}, to)
		return err
	}
	for name, f := range map[string]func(netip.Addr) error{"Connect": connect, "Resolve": resolve, "CreateAH": handle, "Modify": path} {
		if err := f(alien); !errors.Is(err, ErrNotAllowed) {
			t.Errorf("%s to %s: %v, want %v", name, alien, err, ErrNotAllowed)
		}
		if err := f(loopbackGIDs[0]); err != nil {
			t.Errorf("%s to the device itself: %v", name, err)
		}
	}
	if err := path(peer); !errors.Is(err, route.ErrNoRoute) {
		t.Errorf("to a host that is allowed: %v, want that of a loopback device", err)
	}
}
