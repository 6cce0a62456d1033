// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The addresses of a list, IPv4 in either form.
func TestAllowList(t *testing.T) {
	l := AllowList{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("192.0.2.7/32")}
	for a, want := range map[string]bool{
		"10.0.0.0": true, "10.0.0.255": true, "10.0.1.0": false, "9.255.255.255": false, "::ffff:10.0.0.9": true, "::ffff:10.0.1.9": false,
		"192.0.2.7": true, "192.0.2.6": false, "fe80::1": true, "fe80::1%eth0": true, "fd00::1": false, "::": false, "::a00:1": false,
	} {
		if l.Has(netip.MustParseAddr(a)) != want {
			t.Errorf("%s: %v", a, !want)
		}
		if !AllowList(nil).Has(netip.MustParseAddr(a)) {
			t.Errorf("%s is not in the list of all", a)
		}
	}
}

// readyUD is a UD queue pair in RTR.
func readyUD(t *testing.T, e *Core) *QP {
	t.Helper()
	x := &QP{}
	if err := e.AddQP(x, QPConfig{Config: qp.Config{Type: verbs.UD}}); err != nil {
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
	e.rx.allow = AllowList{netip.PrefixFrom(peer, 32)}
	e.StartMADs(new(manager))
	rc, ud := receiving(t, e, verbs.RC), readyUD(t, e)
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
			e.rx.frame(b, Meta{}, x.loopback)
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
