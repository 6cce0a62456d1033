// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// fast are managers that repeat a message after a millisecond.
var fast = cm.Config{ResponseTimeout: 8, Retries: 15, Timewait: 10 * time.Millisecond}

func listen(t testing.TB, dev verbs.Device, address string, options ...rdma.Option) *rdma.Listener {
	t.Helper()
	l, err := rdma.Listen(testkit.Context(t), dev, address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// echo answers each message of each connection until the listener is closed.
func echo(l *rdma.Listener) {
	for {
		c, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			p := make([]byte, c.MaxMessage())
			for {
				n, err := c.Recv(context.Background(), p)
				if err == nil {
					err = c.Send(context.Background(), p[:n])
				}
				if err != nil {
					return
				}
			}
		}()
	}
}

func TestManyConnections(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{})
	l := listen(t, dev, ":0")
	go echo(l)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	ctx := testkit.Context(t)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			host := []string{"127.0.0.1", "::1", "localhost"}[i%3]
			c, err := rdma.Dial(ctx, dev, net.JoinHostPort(host, port), rdma.WithRecvBuffers(4))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for j := range 20 {
				p := make([]byte, 8)
				if err := c.Send(ctx, []byte{byte(i), byte(j)}); err != nil {
					t.Error(err)
					return
				}
				if n, err := c.Recv(ctx, p); err != nil || n != 2 || p[0] != byte(i) || p[1] != byte(j) {
					t.Errorf("connection %d, message %d: %v, %v", i, j, p[:n], err)
					return
				}
			}
		})
	}
	all.Wait()
}

// A listener with a full backlog gets the request again later.
func TestBacklog(t *testing.T) {
	var requests atomic.Int32
	dropped := make(chan struct{})
	dev := openLoop(t, cmpeer.Config{CM: cm.Config{ResponseTimeout: 14}, Drop: func(s cm.Send) bool {
		if s.MAD.Attr() == mad.AttrREQ && requests.Add(1) == 2 {
			close(dropped)
		}
		return false
	}})
	l := listen(t, dev, "127.0.0.1:0", rdma.WithBacklog(1))
	ctx := testkit.Context(t)
	results := make(chan error)
	for range 2 {
		go func() {
			c, err := rdma.Dial(ctx, dev, l.Addr().String())
			if err == nil {
				err = c.Close()
			}
			results <- err
		}()
	}
	<-dropped
	go echo(l)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := requests.Load(); n < 3 {
		t.Errorf("%d requests were sent: the second one was not dropped", n)
	}
}

// Goroutines share a connection in both directions.
func TestConcurrent(t *testing.T) {
	a, b := connect(t, openLoop(t, cmpeer.Config{}), rdma.WithRecvBuffers(3), rdma.WithSendDepth(3))
	defer a.Close()
	defer b.Close()
	ctx := testkit.Context(t)
	const goroutines, messages = 6, 200
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[[3]byte]int{}
	for end, c := range []*rdma.Conn{a, b} {
		for g := range goroutines {
			all.Go(func() {
				for i := range messages {
					if err := c.Send(ctx, []byte{byte(end), byte(g), byte(i)}); err != nil {
						t.Error(err)
						return
					}
				}
			})
			all.Go(func() {
				for range messages {
					var p [3]byte
					if _, err := c.Recv(ctx, p[:]); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					seen[p]++
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	if len(seen) != 2*goroutines*messages {
		t.Errorf("%d different messages arrived, want %d", len(seen), 2*goroutines*messages)
	}
}

func TestPrivateAndReject(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{})
	l := listen(t, dev, "127.0.0.1:7174")
	ctx := testkit.Context(t)
	go func() {
		for {
			r, err := l.Next(ctx)
			if err != nil {
				return
			}
			if strings.HasPrefix(string(r.Private()), "let me in\x00") {
				if _, err := r.Accept(ctx, rdma.WithPrivate([]byte("welcome"))); err != nil {
					t.Error(err)
				}
				continue
			}
			if err := r.Reject([]byte("say the word")); err != nil {
				t.Error(err)
			}
		}
	}()
	c, err := rdma.Dial(ctx, dev, "127.0.0.1:7174", rdma.WithPrivate([]byte("let me in")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !strings.HasPrefix(string(c.PeerPrivate()), "welcome\x00") {
		t.Errorf("%q", c.PeerPrivate())
	}
	for address, want := range map[string]struct {
		reason  mad.Reason
		private string
	}{
		"127.0.0.1:7174": {mad.ReasonConsumer, "say the word\x00"},
		"127.0.0.1:7175": {mad.ReasonInvalidServiceID, ""},
		"[::1]:7174":     {mad.ReasonConsumer, "\x00"}, // the listener has 127.0.0.1 only
	} {
		_, err := rdma.Dial(ctx, dev, address)
		var rejected *rdma.RejectedError
		var e *rdma.Error
		if !errors.As(err, &rejected) || rejected.Reason != want.reason || !strings.HasPrefix(string(rejected.Private), want.private) {
			t.Errorf("%s: %v", address, err)
		} else if !errors.As(err, &e) || e.Peer.String() != address {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestBadCalls(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{})
	ctx := testkit.Context(t)
	listen(t, dev, "127.0.0.1:7174")
	if _, err := rdma.Listen(ctx, dev, ":7174"); !errors.Is(err, cm.ErrInUse) {
		t.Errorf("a second listener: %v", err)
	}
	for address, want := range map[string]string{
		"127.0.0.1": "missing port", "127.0.0.1:http": "give a number", ":7174": "give a name or an IP address",
		"127.0.0.1:70000": "0 to 65535",
	} {
		if _, err := rdma.Dial(ctx, dev, address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	for want, o := range map[string]rdma.Option{
		"WithRecvBuffers is -1": rdma.WithRecvBuffers(-1), "WithSendDepth is 1048576": rdma.WithSendDepth(1 << 20),
		"WithMaxMessage is -1": rdma.WithMaxMessage(-1), "WithMaxMessage is 0": rdma.WithMaxMessage(0),
		"WithRecvBuffers is 0": rdma.WithRecvBuffers(0), "WithSendDepth is 0": rdma.WithSendDepth(0),
		"WithLocal is 192.0.2.1: choose": rdma.WithLocal(netip.MustParseAddr("192.0.2.1")),
	} {
		if _, err := rdma.Dial(ctx, dev, "127.0.0.1:7174", o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	sent := dev.Sent.Load()
	for _, address := range []string{"192.0.2.1:7174", "[2001:db8::1]:7174"} {
		if _, err := rdma.Dial(ctx, dev, address); err == nil || !strings.Contains(err.Error(), "no route") {
			t.Errorf("dial %s: %v", address, err)
		}
		if _, err := rdma.Resolve(ctx, dev, address); err == nil || !strings.Contains(err.Error(), "no route") {
			t.Errorf("resolve %s: %v", address, err)
		}
	}
	if n := dev.Sent.Load() - sent; n != 0 {
		t.Errorf("%d messages were sent to addresses without a route", n)
	}
	if _, err := rdma.Listen(ctx, dev, "192.0.2.1:7179"); err == nil || !strings.Contains(err.Error(), "the device does not have 192.0.2.1") {
		t.Errorf("listen: %v", err)
	}
	var plain verbs.Device = devices.Loopback(t)
	if _, ok := plain.(cm.Connector); !ok {
		if _, err := rdma.Dial(ctx, plain, "127.0.0.1:1"); !errors.Is(err, rdma.ErrNoCM) {
			t.Error(err)
		}
	}
}
