// SPDX-License-Identifier: Apache-2.0

package oracle_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
	"github.com/softroce/softroce-xdp/testenv/oracle"
	"github.com/softroce/softroce-xdp/testenv/oracle/sides"
)

// closeLater closes something when the test ends.
func closeLater(t *testing.T, what string, close func() error) {
	t.Cleanup(func() {
		if err := close(); err != nil {
			t.Errorf("close %s: %v", what, err)
		}
	})
}

// hubPort0 is a port of a card on the bridge of rxe's machine.
func hubPort0(t *testing.T, p *oracle.Pair, addr netip.Addr) sides.Port {
	t.Helper()
	host, err := p.Net().AddHost(rxepeer.HostConfig{Name: "hub", Addrs: []netip.Prefix{netip.PrefixFrom(addr, 24)}})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, "hub's host", host.Close)
	rxe := p.Judge().VM.Config.NICs[0]
	peers := map[netip.Addr]net.HardwareAddr{}
	for _, a := range rxe.Addrs {
		peers[a.Addr()] = rxe.MAC
	}
	return sides.Port{Iface: rxepeer.HostIface, MAC: host.Config.MAC, Do: host.Do, Peers: peers}
}

// newStar has a model of the card with its four ports on four interfaces: port 0 leads to rxe, each
// other one by a veth pair of its own to another model. down ends the link of destination 2.
func newStar(t *testing.T) (ctx context.Context, s *oracle.Star, down func() error) {
	t.Helper()
	ctx, p := oracle.Machines(t)
	addr := netip.MustParseAddr("10.78.0.20")
	ports := []sides.Port{hubPort0(t, p, addr)}
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(4)}) // the hub's ports 1 to 3, and what they lead to
	peers := []oracle.Side{p.Judge()}
	for i := 1; i < 4; i++ {
		name := fmt.Sprintf("port%d", i)
		ends, err := topo.Cable(top.Host(1), top.Host(1+i), topo.CableSpec{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		at := netip.AddrFrom4([4]byte{10, 79, 0, byte(i)})
		port := func(i int, peer netip.Addr) sides.Port {
			return sides.Port{Iface: name, MAC: ends[i].MAC, Do: ends[i].Host.Do, Peers: map[netip.Addr]net.HardwareAddr{peer: ends[1-i].MAC}}
		}
		ports = append(ports, port(0, at))
		leaf, err := sides.New("behind "+name, []netip.Addr{at}, port(1, addr))
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, leaf.Name(), leaf.Close)
		peers = append(peers, leaf)
		if i == 2 {
			nl := ends[1].Host.Netlink()
			down = func() error {
				link, err := nl.LinkByName(name)
				if err == nil {
					err = nl.LinkSetDown(link)
				}
				return err
			}
		}
	}
	hub, err := sides.New("hub", []netip.Addr{addr}, ports...)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, "the hub", hub.Close)
	if s, err = oracle.NewStar(hub, peers...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%+v", hub.Model.Counters())
		}
	})
	return ctx, s, down
}

// TestCardDistribution has rxe write to the distribution region of a card whose four ports are four
// interfaces (S2.7). rxe is one of the destinations too. Then the link of another one is down.
func TestCardDistribution(t *testing.T) {
	ctx, s, down := newStar(t)
	expect := func(want mr.Report) { t.Helper(); expectReport(ctx, t, s, 4, want) }
	expect(mr.Report{})
	expect(mr.Report{Message: 1})
	if t.Failed() {
		return
	}
	if err := down(); err != nil {
		t.Fatal(err)
	}
	expect(mr.Report{Message: 2, Status: [4]verbs.Status{2: verbs.StatusRetryExceeded}})
	expect(mr.Report{Message: 3, Status: [4]verbs.Status{2: verbs.StatusWRFlushed}})
}

// TestEngineDistribution has rxe write to a distribution region of the engine, whose destinations
// are the rxe of two machines, the origin's among them (S2.7). Then the queue pair of one is in ERR.
func TestEngineDistribution(t *testing.T) {
	ctx, p, us := engineAndJudge(t)
	s, err := oracle.NewStar(us, p.Judge(), p.SecondJudge())
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, "the star", s.Close)
	expect := func(want mr.Report) { t.Helper(); expectReport(ctx, t, s, 2, want) }
	expect(mr.Report{})
	expect(mr.Report{Message: 1})
	if t.Failed() {
		return
	}
	if err := s.Fail(1); err != nil {
		t.Fatal(err)
	}
	expect(mr.Report{Message: 2, Status: [4]verbs.Status{1: verbs.StatusRetryExceeded}})
	expect(mr.Report{Message: 3, Status: [4]verbs.Status{1: verbs.StatusWRFlushed}})
}

// expectReport sends a message, and compares its report and the data of all destinations.
func expectReport(ctx context.Context, t *testing.T, s *oracle.Star, destinations uint8, want mr.Report) {
	t.Helper()
	const size = 50001
	want.VA, want.Length, want.Destinations = s.VA(), size, destinations
	b, err := s.Send(ctx, size, mr.ReportLen)
	if err != nil {
		t.Fatal(err)
	}
	got, err := mr.ParseReport(b)
	if err != nil || got != want {
		t.Errorf("report %+v, %v, want %+v", got, err, want)
	}
	for i, status := range want.Status[:want.Destinations] {
		if has, err := s.Holds(i, size); err != nil || has != (status == verbs.StatusSuccess) {
			t.Errorf("destination %d of status %v has the data: %v, %v", i, status, has, err)
		}
	}
}
