// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// The Timeout that the dialling end chooses holds at both ends, also a short one, and the default one. It was
// raised by what the peer announces as the longest time until its ACK.
func TestTimeoutIsKept(t *testing.T) {
	loop := devices.Loopback(t)
	for name, dev := range map[string]verbs.Device{
		"engine":                          loop,
		"a manager that announces 134 ms": openLoop(t, cmpeer.Config{}),
	} {
		for _, timeout := range []uint8{verbs.DefaultAttr().Timeout, 8, 12, 19} {
			ctx := testkit.Context(t)
			l := listen(t, dev, "127.0.0.1:0")
			client, server := newOwn(t, dev), newOwn(t, dev)
			accepted := make(chan error, 1)
			go func() {
				r, err := l.Next(ctx)
				if err == nil {
					_, err = r.AcceptQP(ctx, server.qp)
				}
				accepted <- err
			}()
			_, err := rdma.Connect(ctx, dev, l.Addr().String(), client.qp, rdma.WithAttr(func(a *verbs.Attr) { a.Timeout = timeout }))
			if err != nil {
				t.Fatal(err)
			}
			if err := <-accepted; err != nil {
				t.Fatal(err)
			}
			for end, o := range map[string]*own{"dials": client, "listens": server} {
				a, err := o.qp.Query()
				check(err)
				if a.Timeout != timeout {
					t.Errorf("%s: the end that %s has Timeout %d, want %d", name, end, a.Timeout, timeout)
				}
			}
		}
	}
}
