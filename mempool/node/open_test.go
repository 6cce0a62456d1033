// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// acceptOne listens until the test ends, and accepts a connection to the address.
func acceptOne(ctx context.Context, t *testing.T, dev verbs.Device) (at string, accepted <-chan *rdma.Conn) {
	t.Helper()
	l := testkit.Must1(rdma.Listen(ctx, dev, "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	one := make(chan *rdma.Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		one <- c
	}()
	return l.Addr().String(), one
}

// Both ends of a connection give a silent peer up within two seconds: others have copies.
func TestFailOver(t *testing.T) {
	ctx, dev := testkit.Context(t), devices.Loopback(t)
	at, accepted := acceptOne(ctx, t, dev)
	ends := map[string]*rdma.Conn{"node": testkit.Must1(dial(ctx, dev, at, nil, nil))(t)}
	ends["server"] = testkit.Receive(t, "the server accepts", accepted)
	for end, c := range ends {
		if c == nil {
			continue
		}
		a := testkit.Must1(c.QP().Query())(t)
		if d := time.Duration(qp.RetryBound(a.Timeout, a.RetryCnt)); d > 2*time.Second {
			t.Errorf("the %s gives a silent peer up after %v, want at most 2 s", end, d)
		}
		testkit.Must(t, c.Close())
	}
}
