// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// impatient are attributes with which a silent peer is given up after some 20 ms.
func impatient(a *verbs.Attr) { a.Timeout, a.RetryCnt = 10, 2 }

// A peer that has vanished without a word is an error for a sender, and by the keep-alive for
// a receiver.
func TestPeerDead(t *testing.T) {
	for name, x := range map[string]struct {
		keepAlive time.Duration
		call      func(c *rdma.Conn) error
	}{
		"send": {-1, func(c *rdma.Conn) error { return c.Send(context.Background(), nil) }},
		"recv": {time.Millisecond, func(c *rdma.Conn) error { _, err := c.Recv(context.Background(), nil); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			dev := openLoop(t, cmpeer.Config{CM: fast})
			a, b := connect(t, dev, rdma.WithAttr(impatient), rdma.WithKeepAlive(x.keepAlive))
			if err := b.QP().Destroy(); err != nil {
				t.Fatal(err)
			}
			result := make(chan error)
			go func() { result <- x.call(a) }()
			err := testkit.Receive(t, "it returns", result)
			var e *rdma.Error
			if !errors.As(err, &e) || e.Status != verbs.StatusRetryExceeded || !errors.Is(err, rdma.ErrFailed) {
				t.Errorf("%v: %+v", err, e)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The keep-alive of a connection whose peer is there changes nothing.
func TestKeepAlive(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{})
	a, b := connect(t, dev, rdma.WithKeepAlive(time.Millisecond))
	defer a.Close()
	defer b.Close()
	ctx, cancel := context.WithCancel(testkit.Context(t))
	received := make(chan error)
	go func() {
		_, err := a.Recv(ctx, nil)
		received <- err
	}()
	for before := sentPackets(t, dev); sentPackets(t, dev) < before+10; {
		select {
		case err := <-received:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-received; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := a.Send(testkit.Context(t), nil); err != nil {
		t.Error(err)
	}
}

// sentPackets returns a counter that grows with each request and each answer.
func sentPackets(t testing.TB, dev *cmpeer.LoopDevice) uint64 {
	t.Helper()
	for _, c := range dev.Counters() {
		if c.Name == "sent_pkts" {
			return c.Value
		}
	}
	t.Fatal("the device has no counter sent_pkts")
	return 0
}

// A message of the peer stands for a lost RTU.
func TestLostRTU(t *testing.T) {
	c := fast
	c.ResponseTimeout = 21 // 8.6 s: the RTU is not repeated in time
	var lost atomic.Int32
	dev := openLoop(t, cmpeer.Config{CM: c, Drop: func(s cm.Send) bool {
		drop := s.MAD.Attr() == mad.AttrRTU
		if drop {
			lost.Add(1)
		}
		return drop
	}})
	a, b := connect(t, dev)
	defer a.Close()
	defer b.Close()
	ctx := testkit.Context(t)
	sent := make(chan error, 1)
	go func() { sent <- b.Send(ctx, []byte("first")) }() // waits for the peer
	if err := a.Send(ctx, []byte("ready")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 10)
	if n, err := a.Recv(ctx, p); err != nil || string(p[:n]) != "first" {
		t.Errorf("%q, %v", p[:n], err)
	}
	if err := <-sent; err != nil || lost.Load() == 0 {
		t.Errorf("%v, %d RTUs lost", err, lost.Load())
	}
}

// A server that sends first waits for the client, also if its RTU comes late.
func TestServerSendsFirst(t *testing.T) {
	var lost atomic.Int32
	dev := openLoop(t, cmpeer.Config{CM: fast, Drop: func(s cm.Send) bool {
		return s.MAD.Attr() == mad.AttrRTU && lost.Add(1) <= 8
	}})
	a, b := connect(t, dev, rdma.WithKeepAlive(-1))
	defer a.Close()
	defer b.Close()
	ctx := testkit.Context(t)
	if err := b.Send(ctx, []byte("first")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 10)
	if n, err := a.Recv(ctx, p); err != nil || string(p[:n]) != "first" {
		t.Errorf("%q, %v", p[:n], err)
	}
}

// Half of the messages of the managers are lost: of each message, the first copy, the third and so on. If every other
// message of any kind were, all answers could be among the lost ones.
func TestLoss(t *testing.T) {
	type message struct {
		attr mad.Attr
		tid  uint64
	}
	var mu sync.Mutex
	copies := map[message]int{}
	dev := openLoop(t, cmpeer.Config{CM: fast, Drop: func(s cm.Send) bool {
		mu.Lock()
		defer mu.Unlock()
		m := message{s.MAD.Attr(), s.MAD.TID()}
		copies[m]++
		return copies[m]%2 == 1
	}})
	for range 10 {
		a, b := connect(t, dev)
		if err := a.Send(testkit.Context(t), []byte("hello")); err != nil {
			t.Error(err)
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A Dial that is given up leaves nothing behind, at both ends.
func TestDialCanceled(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{CM: fast})
	l := listen(t, dev, "127.0.0.1:0")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := rdma.Dial(ctx, dev, l.Addr().String(), rdma.WithPrivate([]byte("first"))); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	go func() {
		_, _ = rdma.Dial(testkit.Context(t), dev, l.Addr().String(), rdma.WithPrivate([]byte("second")))
	}()
	r, err := l.Next(testkit.Context(t))
	if err == nil && string(r.Private()[:5]) == "first" { // its end reaches the listener by another goroutine
		r, err = l.Next(testkit.Context(t))
	}
	if err != nil || string(r.Private()[:6]) != "second" {
		t.Fatalf("%v", err)
	}
	if err := r.Reject(nil); err != nil {
		t.Error(err)
	}
}

// After Close and timewait, a protection domain has no object any more.
func TestNothingLeft(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{CM: fast})
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t, dev, "127.0.0.1:0", rdma.WithPD(pd))
	go echo(l)
	ctx := testkit.Context(t)
	for i := range 5 {
		c, err := rdma.Dial(ctx, dev, l.Addr().String(), rdma.WithPD(pd))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(ctx, make([]byte, 1000)); err != nil {
			t.Error(err)
		}
		if i%2 == 0 {
			if _, err := c.Recv(ctx, make([]byte, 1000)); err != nil {
				t.Error(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err = rdma.Dial(ctx, dev, "127.0.0.1:9", rdma.WithPD(pd)) // rejected
	if err == nil {
		t.Error("connected to nobody")
	}
	testkit.Eventually(t, "the protection domain is free", pd.Free)
	// Memory is given back after it was deregistered.
	testkit.Eventually(t, "no memory is left", func() bool { return dev.Allocated() == 0 })
}
