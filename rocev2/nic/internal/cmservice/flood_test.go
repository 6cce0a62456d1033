// SPDX-License-Identifier: Apache-2.0

package cmservice_test

import (
	"testing"
	"testing/synctest"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/cmservice"
)

// Requests for services without a listener do not displace other messages: they are at most half of those that
// wait.
func TestRequestsToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newNetwork(t, 8)
		x := a.open(t)
		testkit.Must(t, x.Listen(port, 0))
		a.gate = make(chan struct{})
		go func() { _ = x.Listen(port+1, 0) }()
		synctest.Wait() // the goroutine of the service stands at the gate
		nobody, listened := mad.NewREQ(1), mad.NewREQ(2)
		nobody.SetServiceID(port + 2)
		listened.SetServiceID(port)
		for range cmservice.MaxArrived {
			a.svc.Receive(addrB, addrA, nobody.Header, cm.Plain)
		}
		for range cmservice.MaxArrived/4 - 1 {
			a.svc.Receive(addrB, addrA, listened.Header, cm.Plain)
		}
		rtu := mad.NewRTU(3, 1, 2)
		a.svc.Receive(addrB, addrA, rtu.Header, cm.Plain)
		close(a.gate)
		c := a.svc.Counters()
		if c.Arrived != cmservice.MaxArrived/4*3 || c.Dropped != cmservice.MaxArrived/2 {
			t.Errorf("%d messages arrived and %d were dropped, want %d requests to nobody and all others", c.Arrived, c.Dropped, cmservice.MaxArrived/2)
		}
		for range cmservice.MaxArrived / 2 {
			a.svc.Receive(addrB, addrA, nobody.Header, cm.Plain)
		}
		if again := a.svc.Counters(); again.Dropped != c.Dropped {
			t.Errorf("%d more were dropped after the queue was empty", again.Dropped-c.Dropped)
		}
		testkit.Must(t, x.Unlisten(port))
	})
}
