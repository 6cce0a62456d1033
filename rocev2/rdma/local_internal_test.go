// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// routed is a device with addresses, and routes to some peers.
type routed struct {
	verbs.Device
	verbs.PD
	own   []netip.Addr
	peers map[netip.Addr]bool
	asked []verbs.AddressVector
	open  int // address handles
	wait  chan struct{}
}

var errNoRoute = errors.New("no route")

func (d *routed) Port() (verbs.Port, error) { return d.port(), nil }

func (d *routed) port() verbs.Port { return verbs.Port{GIDs: d.own} }

func (d *routed) CreateAH(av verbs.AddressVector) (verbs.AH, error) {
	if d.wait != nil {
		<-d.wait
	}
	d.asked = append(d.asked, av)
	if !d.peers[av.Dst] {
		return nil, errNoRoute
	}
	d.open++
	return handle{d}, nil
}

type handle struct{ d *routed }

func (h handle) Destroy() error { h.d.open--; return nil }

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// newRouted returns a device that is on no interface of this host: documentation addresses (RFC 5737, 3849).
func newRouted() *routed {
	return &routed{
		own:   []netip.Addr{ip("fe80::5"), {}, ip("::ffff:192.0.2.1"), ip("192.0.2.7"), ip("2001:db8::1")},
		peers: map[netip.Addr]bool{ip("192.0.2.2"): true, ip("2001:db8::2"): true, ip("fe80::9"): true},
	}
}

// The addresses of both ends, or at once the error that says why there are none.
func TestFindEnds(t *testing.T) {
	for _, c := range []struct {
		local, peer string
		from, to    string // addresses of both ends; with an error, to is a part of it
	}{
		{"", "192.0.2.2", "192.0.2.1", "192.0.2.2"},
		{"192.0.2.7", "192.0.2.2", "192.0.2.7", "192.0.2.2"},
		{"", "2001:db8::2", "2001:db8::1", "2001:db8::2"},
		{"", "fe80::9", "fe80::5", "fe80::9"},
		{"", "192.0.2.7", "192.0.2.7", "192.0.2.7"},
		{"192.0.2.1", "192.0.2.7", "192.0.2.1", "192.0.2.7"},
		// The device itself.
		{"", "127.0.0.1", "192.0.2.1", "192.0.2.1"},
		{"", "::1", "2001:db8::1", "2001:db8::1"},
		{"192.0.2.7", "127.0.0.1", "192.0.2.7", "192.0.2.1"},
		// No way there.
		{"", "198.51.100.1", "", "no route"},
		{"", "2001:db8:1::1", "", "no route"},
		{"198.51.100.9", "192.0.2.2", "", "WithLocal is 198.51.100.9: choose an address of the device"},
		{"127.0.0.1", "192.0.2.2", "", "WithLocal is 127.0.0.1"},
	} {
		t.Run(c.local+" to "+c.peer, func(t *testing.T) {
			d := newRouted()
			h := &host{dev: d, pd: d}
			var local netip.Addr
			if c.local != "" {
				local = ip(c.local)
			}
			e, err := h.findEnds(t.Context(), d.port(), local, ip(c.peer))
			switch {
			case c.from == "":
				if err == nil || !strings.Contains(err.Error(), c.to) {
					t.Errorf("%+v, %v: want an error with %q", e, err, c.to)
				}
			case err != nil || e != ends{ip(c.from), ip(c.to)}:
				t.Errorf("%+v, %v", e, err)
			}
			if d.open != 0 {
				t.Errorf("%d address handles are left", d.open)
			}
			for _, av := range d.asked {
				if av.Dst != ip(c.peer) || !av.Src.IsValid() {
					t.Errorf("asked for the route from %s to %s", av.Src, av.Dst)
				}
			}
		})
	}
}

// A device without an address of the IP version is no loopback for it, and takes a link-local one if
// there is no other.
func TestLoopbackOfDevice(t *testing.T) {
	if a, err := ofDevice([]netip.Addr{ip("fe80::5")}, ip("::1")); err != nil || a != ip("fe80::5") {
		t.Error(a, err)
	}
	if a, err := ofDevice([]netip.Addr{ip("fe80::5")}, ip("127.0.0.1")); err == nil {
		t.Error(a)
	}
}

// The device waits for a neighbour: the end of the context ends the question.
func TestRouteQuestionEnds(t *testing.T) {
	d := newRouted()
	d.wait = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := &host{dev: d, pd: d}
	if _, err := h.findEnds(ctx, d.port(), netip.Addr{}, ip("192.0.2.2")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(d.wait)
}

// Where a listener takes requests.
func TestFindPlace(t *testing.T) {
	at := func(list ...string) (a []netip.AddrPort) {
		for _, s := range list {
			a = append(a, netip.AddrPortFrom(ip(s), 7))
		}
		return a
	}
	for _, c := range []struct {
		list []netip.AddrPort
		addr string
		want string // requests "from>to" of the list below that are taken
	}{
		{at("::"), "::", "remote own"},
		{at("0.0.0.0"), "0.0.0.0", "remote own"},
		{at("192.0.2.1"), "192.0.2.1", "remote"},
		{at("198.51.100.1", "192.0.2.7"), "192.0.2.7", "own"},
		{at("fe80::5%eth0"), "fe80::5", ""},
		{at("127.0.0.1"), "127.0.0.1", "own"},
		{at("::1"), "::1", "own"},
	} {
		p, err := findPlace(newRouted(), c.list)
		if err != nil || p.addr != ip(c.addr) || p.port != 7 {
			t.Errorf("%v: %+v, %v", c.list, p, err)
			continue
		}
		var taken []string
		for _, r := range []struct{ name, from, to string }{{"remote", "192.0.2.2", "192.0.2.1"}, {"own", "192.0.2.7", "192.0.2.7"}} {
			e := &cm.Event{Path: cm.Path{Local: verbs.Endpoint{Addr: ip(r.to)}, Remote: verbs.Endpoint{Addr: ip(r.from)}}}
			if p.takes(e) {
				taken = append(taken, r.name)
			}
		}
		if got := strings.Join(taken, " "); got != c.want {
			t.Errorf("a listener at %v takes requests %q, want %q", c.list, got, c.want)
		}
	}
	if p, err := findPlace(newRouted(), at("198.51.100.1")); err == nil || !strings.Contains(err.Error(), "the device does not have 198.51.100.1: choose one of [") {
		t.Errorf("%+v, %v", p, err)
	}
}
