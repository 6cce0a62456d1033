// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// flood sends datagrams of 1000 bytes from a to b until stop is closed.
func flood(t *testing.T, a, b *Host, stop <-chan struct{}) *sync.WaitGroup {
	t.Helper()
	var conn *net.UDPConn
	err := a.Do(func() (err error) {
		conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a.IPv4(), 0)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer conn.Close()
		buf := make([]byte, 1000)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for range 32 { // per ~1.1 ms, which is what a short Sleep takes: over 200 Mbit/s
				_, err := conn.WriteToUDPAddrPort(buf, netip.AddrPortFrom(b.IPv4(), 9))
				if err != nil && !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("flood: %v", err)
					return
				}
			}
			time.Sleep(50 * time.Microsecond)
		}
	})
	return &wg
}

// rate measures what the port lets through, in bit/s.
func rate(t *testing.T, p *Port, d time.Duration) (bps float64, last QueueStats) {
	t.Helper()
	first, err := p.Queue()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(d)
	last, err = p.Queue()
	if err != nil {
		t.Fatal(err)
	}
	return float64(last.Sent-first.Sent) * 8 / last.At.Sub(first.At).Seconds(), last
}

func TestBottleneckRateFollowsChanges(t *testing.T) {
	top := ForTest(t, Spec{StaticNeighbours: true, Hosts: []HostSpec{
		{}, {Bottleneck: &Bottleneck{RateBPS: 20e6, Limit: 30000}},
	}})
	a, b := top.Host(1), top.Host(2)
	stop := make(chan struct{})
	wg := flood(t, a, b, stop)
	defer wg.Wait()
	defer close(stop)
	time.Sleep(50 * time.Millisecond)

	// Rates that every machine exceeds. A window in which the machine stalled says nothing; a
	// later one must do.
	for _, want := range []float64{20e6, 2e6, 20e6} {
		if err := b.Port().SetRate(uint64(want)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		var got float64
		var q QueueStats
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
			got, q = rate(t, b.Port(), 200*time.Millisecond)
			t.Logf("asked %.0f Mbit/s, got %.2f; backlog %d bytes, %d drops", want/1e6, got/1e6, q.Backlog, q.Drops)
			if got > .95*want && got < 1.05*want && q.Backlog > 30000/2 {
				break
			}
		}
		if got < .95*want || got > 1.05*want {
			t.Errorf("bottleneck of %.0f Mbit/s passes %.2f", want/1e6, got/1e6)
		}
		if q.Backlog < 30000/2 || q.Backlog > 30000 {
			t.Errorf("backlog of %d bytes under overload, want close to the limit of 30000", q.Backlog)
		}
		if q.Drops == 0 || q.Queued == 0 {
			t.Errorf("no drops or no packets queued under overload: %+v", q)
		}
	}
	if b.Port().Bottleneck().Limit != 30000 {
		t.Errorf("SetRate changed the limit: %+v", b.Port().Bottleneck())
	}
	all, err := top.Queues()
	if err != nil || len(all) != 2 || all[0].Sent != 0 || all[1].Sent == 0 {
		t.Errorf("Queues: %+v, %v; want nothing at h1, traffic at h2", all, err)
	}
}

func TestBottleneckComesAndGoes(t *testing.T) {
	top := ForTest(t, Spec{Hosts: Hosts(2), StaticNeighbours: true})
	p := top.Host(2).Port()
	if _, err := p.Queue(); err == nil {
		t.Error("Queue of a port without bottleneck succeeded")
	}
	if err := p.SetRate(1e6); err == nil {
		t.Error("SetRate of a port without bottleneck succeeded")
	}
	if err := p.SetBottleneck(&Bottleneck{RateBPS: 1e6, LimitTime: 100 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if got := p.Bottleneck().Limit; got != 12500 {
		t.Errorf("100 ms at 1 Mbit/s is a limit of %d bytes, want 12500", got)
	}
	if err := p.SetBottleneck(&Bottleneck{RateBPS: 1}); err == nil {
		t.Error("a bottleneck of 1 bit/s was accepted")
	}
	for range 2 {
		if err := p.SetBottleneck(nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Queue(); err == nil || p.Bottleneck() != nil {
		t.Error("the bottleneck is still there after its removal")
	}
	a, b := top.Host(1), top.Host(2)
	exchange(t, a, b, a.IPv4(), b.IPv4(), 100)
}

func TestTapPortTakesABottleneck(t *testing.T) {
	top := ForTest(t, Spec{MTU: 4200, Hosts: []HostSpec{{}, {Tap: true, Bottleneck: &Bottleneck{RateBPS: 1e9}}}})
	vm := top.Host(2)
	if err := vm.Do(func() error { return nil }); err == nil {
		t.Error("Do on a tap succeeded")
	}
	if err := vm.Command("true").Run(); err == nil {
		t.Error("Command on a tap succeeded")
	}
	if _, err := vm.Port().Queue(); err != nil {
		t.Error(err)
	}
	link, err := top.Switch().Netlink().LinkByName(vm.Port().Name())
	if err != nil || link.Type() != "tuntap" && link.Type() != "tun" || link.Attrs().MTU != 4200 {
		t.Errorf("port of the tap: %+v, %v", link, err)
	}
}

// A switch that has not learnt an address yet floods; these know theirs from the start.
func TestNothingIsFlooded(t *testing.T) {
	wide := &Bottleneck{RateBPS: 1e9}
	top := ForTest(t, Spec{StaticNeighbours: true, Hosts: []HostSpec{{}, {Bottleneck: wide}, {Bottleneck: wide}}})
	a, b := top.Host(1), top.Host(2)
	for range 10 {
		exchange(t, a, b, a.IPv4(), b.IPv4(), 1000)
	}
	q, err := top.Queues()
	if err != nil {
		t.Fatal(err)
	}
	if q[1].Sent < 10_000 || q[2].Sent >= 10_000 { // multicast listener reports are small, and repeated
		t.Errorf("h2's port sent %d bytes, h3's %d; want all 10 datagrams at h2 and none at h3", q[1].Sent, q[2].Sent)
	}
}
