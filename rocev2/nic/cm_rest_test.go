// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic"
)

// A host without a kernel RDMA device rejects requests to ports without a listener, also at an
// address that is new, and answers those who look for a UD queue pair.
func TestCMNobodyListens(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		t.Run(fmt.Sprintf("v6=%v", v6), func(t *testing.T) {
			a, b, _ := cmPair(t, v6, nic.Options{})
			var rejected *cm.RejectedError
			for end := time.Now().Add(testkit.Patience); ; { // the peer asks its kernel once a second
				q := a.newQP(t)
				begin := time.Now()
				_, err := a.s.Connect(a.params(b, q))
				testkit.Must(t, err)
				e := a.await(t, cm.Failed)
				a.await(t, cm.Gone)
				testkit.Must(t, q.Destroy())
				if errors.As(e.Err, &rejected) && rejected.Reason == mad.ReasonInvalidServiceID {
					t.Logf("rejected after %v", time.Since(begin))
					break
				}
				if time.Now().After(end) {
					t.Fatalf("nobody listens: %v", e.Err)
				}
			}
			_, err := a.s.Resolve(cm.ResolveParams{Local: a.addr, Peer: b.addr, Service: cmPort})
			testkit.Must(t, err)
			var unresolved *cm.UnresolvedError
			if e := a.await(t, cm.Failed); !errors.As(e.Err, &unresolved) || unresolved.Status != mad.SIDRUnsupported {
				t.Errorf("nobody listens: %v", e.Err)
			}
			a.await(t, cm.Gone)
			testkit.Must(t, b.s.Listen(cmPort, 0)) // what somebody listens to is not rejected
			qa, qb, id, _ := a.dial(t, b)
			exchange(t, a, b, qa, qb, 5000)
			hangUp(t, a, b, id, qa, qb)
		})
	}
}

// A queue pair that is destroyed ends its connection, at both ends.
func TestCMQueuePairDestroyed(t *testing.T) {
	dev := devices.Loopback(t)
	addr := netip.MustParseAddr("127.0.0.1")
	for _, first := range []bool{true, false} {
		a, b := newProgram(t, dev, addr), newProgram(t, dev, addr)
		testkit.Must(t, b.s.Listen(cmPort, 0))
		qa, qb, _, _ := a.dial(t, b)
		kept, keptPeer, id, _ := a.dial(t, b)
		if first {
			testkit.Must(t, qa.Destroy())
		} else {
			testkit.Must(t, qb.Destroy())
		}
		for _, p := range []*program{a, b} {
			if e := p.await(t, cm.Disconnected); e.Err != nil {
				t.Error(e.Err)
			}
			p.await(t, cm.Gone)
		}
		exchange(t, a, b, kept, keptPeer, 100)
		hangUp(t, a, b, id, kept, keptPeer)
		testkit.Must(t, b.s.Close())
	}
}
