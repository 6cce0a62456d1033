// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/cmservice"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The addresses of a list, IPv4 in either form.
func TestAllowList(t *testing.T) {
	l := allowList{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("192.0.2.7/32")}
	for a, want := range map[string]bool{
		"10.0.0.0": true, "10.0.0.255": true, "10.0.1.0": false, "9.255.255.255": false, "::ffff:10.0.0.9": true, "::ffff:10.0.1.9": false,
		"192.0.2.7": true, "192.0.2.6": false, "fe80::1": true, "fe80::1%eth0": true, "fd00::1": false, "::": false, "::a00:1": false,
	} {
		if l.has(netip.MustParseAddr(a)) != want {
			t.Errorf("%s: %v", a, !want)
		}
		if !allowList(nil).has(netip.MustParseAddr(a)) {
			t.Errorf("%s is not in the list of all", a)
		}
	}
}

// readyUD is a UD queue pair in RTR.
func readyUD(t *testing.T, e *engine) *QP {
	t.Helper()
	x := &QP{dev: e.dev, typ: verbs.UD, send: &CQ{dev: e.dev}, recv: &CQ{dev: e.dev}}
	x.timer.Owner = x
	if err := e.addQP(x, qp.Config{Type: verbs.UD, Count: &e.qpCount}); err != nil {
		t.Fatal(err)
	}
	a := verbs.DefaultAttr()
	for _, a.State = range []verbs.State{verbs.StateInit, verbs.StateRTR} {
		if err := x.q.Modify(a, verbs.RequiredMask(verbs.UD, a.State)); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// Packets of hosts that are not allowed reach no queue pair and not the communication manager, and are counted. Packets
// of the engine to itself do.
func TestAllowedPackets(t *testing.T) {
	e := bench(t)
	e.allow = allowList{netip.PrefixFrom(peer, 32)}
	svc := cmservice.New(counting{make(chan mad.Header, 100)}, cm.Config{Alone: true})
	defer svc.Close()
	e.startMADs(svc)
	rc, ud := receiver(t, e, verbs.RC), readyUD(t, e)
	req := mad.NewREQ(1)
	req.SetLocalCommID(7)
	req.SetServiceID(0x01060000)
	for name, d := range map[string]rocev2.Datagram{
		"RC":                    {Opcode: rocev2.RCSendOnly, DestQP: rc.num},
		"UD":                    {Opcode: rocev2.UDSendOnly, DestQP: ud.num, QKey: 5},
		"communication manager": {Opcode: rocev2.UDSendOnly, DestQP: mad.QPN, SrcQP: mad.QPN, QKey: mad.QKey, Payload: req.Header},
	} {
		for _, x := range []struct {
			src      netip.Addr
			loopback bool
			dropped  uint64
		}{{peer, false, 0}, {alien, false, 1}, {us, false, 1}, {us, true, 0}} {
			d.Src, d.Dst = x.src, us
			b, err := d.AppendTo([]byte{12: 8, 13: 0})
			if err != nil {
				t.Fatal(err)
			}
			before := e.count
			e.frame(b, rxMeta{}, x.loopback)
			if n := e.count.rxNotAllowed - before.rxNotAllowed; n != x.dropped {
				t.Errorf("%s from %s, loopback %v: %d dropped, want %d", name, x.src, x.loopback, n, x.dropped)
			}
			if delivered := e.count.rxPackets != before.rxPackets; delivered && x.dropped == 1 {
				t.Errorf("%s from %s is delivered", name, x.src)
			}
		}
	}
	if e.count.rxPackets < 4 {
		t.Errorf("%d packets of the host that is allowed were delivered", e.count.rxPackets)
	}
}

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
