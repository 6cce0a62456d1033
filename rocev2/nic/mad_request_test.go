// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// forgedREQ is a request for a port in the name of a host.
func forgedREQ(t *testing.T, src, dst netip.Addr, port uint16, n int) mad.REQ {
	t.Helper()
	r := mad.NewREQ(uint64(n))
	r.SetLocalCommID(uint32(n) + 1)
	r.SetServiceID(mad.IPServiceID(mad.PortTCP, port))
	r.SetCAGUID(uint64(n) + 1)
	r.SetQPN(uint32(n) + 0x100)
	r.SetPMTU(3)
	r.SetMaxRetries(15)
	r.SetLocalResponseTimeout(18)
	r.SetPath(src, dst)
	d := testkit.Must1(mad.IPData{Src: src, Dst: dst}.Append(nil))(t)
	testkit.Must(t, r.SetPrivateData(d))
	return r
}

// Requests of hosts whose neighbours do not answer neither delay an application that accepts one request after the
// other, nor keep the request of a new peer out, however many there are.
func TestRequestsOfHostsThatAreNotThere(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		t.Run(fmt.Sprintf("v6=%v", v6), func(t *testing.T) {
			a, b, hosts := cmPair(t, v6, nic.Options{})
			dev, ctx := hosts[1].Dev, context.Background()
			l, err := rdma.Listen(ctx, dev, ":0")
			testkit.Must(t, err)
			defer l.Close()
			port := uint16(l.Addr().(rdma.Addr).Port())
			// 800 distinct hosts of the /64; the /24 has 180 without a host.
			many := 180
			if v6 {
				many = 800
			}
			for i := range many {
				src := b.addr.As16()
				src[15] = byte(70 + i%180)
				if v6 {
					src[13] = byte(1 + i/180)
				}
				from := netip.AddrFrom16(src).Unmap()
				dev.ReceiveCM(from, b.addr, forgedREQ(t, from, b.addr, port, i).Header, cm.Plain)
			}
			accepted := make(chan error, 1)
			go func() {
				c, err := l.Accept(ctx)
				if err == nil {
					defer c.Close()
					err = c.Send(ctx, []byte("hello"))
				}
				accepted <- err
			}()
			c, err := rdma.Dial(ctx, hosts[0].Dev, net.JoinHostPort(b.addr.String(), fmt.Sprint(port)))
			if err != nil {
				t.Fatalf("%v\n%s", err, dump(dev))
			}
			defer c.Close()
			p := make([]byte, 10)
			if n, err := c.Recv(ctx, p); err != nil || string(p[:n]) != "hello" {
				t.Errorf("%q, %v", p[:n], err)
			}
			testkit.Must(t, <-accepted)
			_ = a
		})
	}
}
