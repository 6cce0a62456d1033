// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// Both ends of a connection give a silent peer up within two seconds: others have copies.
func TestFailOver(t *testing.T) {
	ctx, dev := testkit.Context(t), devices.Loopback(t)
	l := testkit.Must1(rdma.Listen(ctx, dev, "127.0.0.1:0"))(t)
	defer l.Close()
	accepted := make(chan *rdma.Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	ends := map[string]*rdma.Conn{"node": testkit.Must1(dial(ctx, dev, l.Addr().String(), nil, nil))(t)}
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
