// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

// What UseRails cannot do is refused with an error that says what to do.
func TestUseRailsRefuses(t *testing.T) {
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.CreateCQ(16)
	if err != nil {
		t.Fatal(err)
	}
	to := verbs.AddressVector{Dst: netip.MustParseAddr("192.0.2.1")}
	from := to
	from.Src = netip.MustParseAddr("192.0.2.2")
	for _, c := range []struct {
		order bool
		to    verbs.AddressVector
		want  string
	}{
		{false, to, "create it with QPInit.OutOfOrder"},
		{true, to, "the device has 0 further interfaces: open it with more"},
		{true, from, "none of the 0 further interfaces of the device has the address 192.0.2.2"},
	} {
		x, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, OutOfOrder: c.order})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.(verbs.RailQP).UseRails(c.to); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
		if err := x.(verbs.RailQP).UseRails(); c.order && err != nil {
			t.Errorf("no further interface: %v", err)
		}
		if err := x.Destroy(); err != nil {
			t.Error(err)
		}
	}
	if checkRails(make([]Rail, MaxRails+1)) == nil {
		t.Errorf("%d further interfaces are not refused", MaxRails+1)
	}
}

// The counters of sockets are those of all interfaces.
func TestSocketsOfAllRails(t *testing.T) {
	first, second, third := new(xsk.Socket), new(xsk.Socket), new(xsk.Socket)
	d := &Device{socks: xsk.Set{first}, otherRails: []*iface{{socks: xsk.Set{second}}, {socks: xsk.Set{third}}}}
	if got := slices.Collect(d.sockets); !slices.Equal(got, []*xsk.Socket{first, second, third}) {
		t.Errorf("%d sockets", len(got))
	}
}

// steerLog is a data plane that knows for which queue pairs packets are steered.
type steerLog struct {
	noDataplane
	mu      sync.Mutex
	steered map[uint32]bool
	onSteer func()
}

func (l *steerLog) Steer(qpn uint32) error {
	l.onSteer()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steered[qpn] = true
	return nil
}

func (l *steerLog) Unsteer(qpn uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.steered, qpn)
	return nil
}

// A queue pair that is destroyed leaves no entry on a further interface, also if UseRails comes after Destroy
// or runs at the same time.
func TestUseRailsAndDestroy(t *testing.T) {
	l := &steerLog{steered: map[uint32]bool{}}
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.otherRails = []*iface{{name: "rail1", dataplane: l}}
	pd, _ := d.AllocPD()
	cq, _ := d.CreateCQ(16)
	create := func() *QP {
		x, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, OutOfOrder: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []verbs.State{verbs.StateInit, verbs.StateErr} { // which UseRails refuses in the end
			if err := x.Modify(verbs.Attr{State: s}, verbs.RequiredMask(verbs.RC, s)); err != nil {
				t.Fatal(err)
			}
		}
		return x.(*QP)
	}
	to := verbs.AddressVector{Dst: netip.MustParseAddr("127.0.0.1")}

	x := create()
	l.onSteer = func() {}
	if err := x.Destroy(); err != nil {
		t.Fatal(err)
	}
	if err := x.UseRails(to); !errors.Is(err, verbs.ErrDestroyed) || len(l.steered) != 0 {
		t.Errorf("after Destroy: %v, %d queue pairs are steered", err, len(l.steered))
	}

	x = create()
	ended := make(chan error)
	l.onSteer = func() {
		go func() { ended <- x.Destroy() }()
		for !x.destroyed.Load() {
			runtime.Gosched()
		}
	}
	if err := x.UseRails(to); err == nil {
		t.Error("during Destroy: no error")
	}
	if err := <-ended; err != nil || len(l.steered) != 0 {
		t.Errorf("during Destroy: %v, %d queue pairs are steered", err, len(l.steered))
	}
}
