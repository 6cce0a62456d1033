// SPDX-License-Identifier: Apache-2.0

package cmservice_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/cmservice"
)

// A request appears when the path to its sender is known, and takes no place of the backlog before. Requests of others
// pass it meanwhile.
func TestRequestsWaitForTheirPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newNetwork(t, 1)
		x, y := a.open(t), b.open(t)
		testkit.Must(t, y.Listen(port, 1))
		var resolved []func()
		b.reach = func(then func()) bool {
			resolved = append(resolved, then)
			return len(resolved) == 2 // only the second request has a path
		}
		p := params()
		_, err := x.Connect(p)
		testkit.Must(t, err)
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if len(resolved) != 1 {
			t.Fatalf("%d requests wait", len(resolved))
		}
		p.QPN++
		second, err := x.Connect(p)
		testkit.Must(t, err)
		req := await(t, y, cm.Request)
		if req.Path.Remote.QPN != p.QPN {
			t.Errorf("the request of QPN %#x", req.Path.Remote.QPN)
		}
		accept(t, y, req, 0x66)
		if e := await(t, x, cm.Reply); e.ID != second {
			t.Errorf("a reply for %d", e.ID)
		}
		synctest.Wait()
		resolved[0]() // the neighbour has answered
		if req := await(t, y, cm.Request); req.Path.Remote.QPN != p.QPN-1 {
			t.Errorf("the request of QPN %#x", req.Path.Remote.QPN)
		}
		if n := b.svc.Counters(); n.Overflow != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// Requests that are not proven leave a quarter of the places of messages to others.
func TestDoubtedRequestsLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newNetwork(t, 8)
		x := a.open(t)
		testkit.Must(t, x.Listen(port, 0))
		a.gate = make(chan struct{})
		go func() { _ = x.Listen(port+1, 0) }()
		synctest.Wait() // the goroutine of the service stands at the gate
		r := mad.NewREQ(1)
		r.SetServiceID(port)
		for range 2 * cmservice.MaxArrived {
			a.svc.Receive(addrB, addrA, r.Header, cm.Plain)
		}
		rtu := mad.NewRTU(3, 1, 2)
		for range cmservice.MaxArrived / 4 {
			a.svc.Receive(addrB, addrA, rtu.Header, cm.Plain)
		}
		close(a.gate)
		c := a.svc.Counters()
		if c.Arrived != cmservice.MaxArrived || c.Dropped != cmservice.MaxArrived/4*5 || c.Unowned != cmservice.MaxArrived/4 {
			t.Errorf("%d messages arrived, %d were dropped, %d are no requests", c.Arrived, c.Dropped, c.Unowned)
		}
		testkit.Must(t, x.Unlisten(port))
	})
}

// The connection of a queue pair that is encrypted, before the connection has an ID or later, is not ended by a REQ.
func TestEncryptedQueuePair(t *testing.T) {
	for name, early := range map[string]bool{"before": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := newNetwork(t, 1)
				x, y := a.open(t), b.open(t)
				testkit.Must(t, y.Listen(port, 0))
				var req mad.Header
				b.net.proof = cm.Proven
				a.lose = func(h mad.Header) bool {
					if h.Attr() == mad.AttrREQ {
						req = append(mad.Header(nil), h...)
					}
					return false
				}
				if early {
					b.svc.Encrypted(0x66)
				}
				connected(t, x, y)
				if !early {
					b.svc.Encrypted(0x66)
					synctest.Wait()
				}
				mad.REQ{Header: req}.SetLocalCommID(77)
				b.svc.Receive(addrA, addrB, req, cm.Proven)
				nothing(t, y)
			})
		})
	}
}
