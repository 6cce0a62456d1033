// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// own is a queue pair of the application, with one posted receive.
type own struct {
	cq  verbs.CQ
	qp  verbs.QP
	mr  verbs.MR
	mem []byte
}

func newOwn(t *testing.T, dev verbs.Device) *own {
	t.Helper()
	return newOwnOf(t, dev, verbs.QPInit{Type: verbs.RC, MaxSend: 4, MaxRecv: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 16})
}

func newOwnOf(t *testing.T, dev verbs.Device, init verbs.QPInit) *own {
	t.Helper()
	o := &own{mem: make([]byte, 64)}
	pd, err := dev.AllocPD()
	check(err)
	o.cq, err = dev.CreateCQ(8)
	check(err)
	init.SendCQ, init.RecvCQ = o.cq, o.cq
	o.qp, err = pd.CreateQP(init)
	check(err)
	o.mr, err = pd.RegMR(o.mem, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	check(err)
	check(verbs.ToInit(o.qp, verbs.Endpoint{}, verbs.DefaultAttr()))
	check(o.qp.PostRecv(&verbs.RecvWR{ID: 7, SGL: []verbs.SGE{{Addr: o.mr.VA(), Len: 64, LKey: o.mr.LKey()}}}))
	return o
}

// next returns the next completion.
func (o *own) next(t *testing.T) verbs.Completion {
	t.Helper()
	return devices.Next(t, o.cq)
}

// linked connects two queue pairs.
func linked(t *testing.T, dev verbs.Device) (client, server *own, near, far *rdma.Link) {
	t.Helper()
	client, server = newOwn(t, dev), newOwn(t, dev)
	near, far = linkedOf(t, dev, client, server)
	return client, server, near, far
}

func linkedOf(t *testing.T, dev verbs.Device, client, server *own) (near, far *rdma.Link) {
	t.Helper()
	l := listen(t, dev, "127.0.0.1:0")
	accepted := make(chan error, 1)
	go func() {
		r, err := l.Next(context.Background())
		if err == nil {
			far, err = r.AcceptQP(context.Background(), server.qp, rdma.WithPrivate([]byte("yes")))
		}
		accepted <- err
	}()
	near, err := rdma.Connect(testkit.Context(t), dev, l.Addr().String(), client.qp)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	return near, far
}

// Queue pairs in out-of-order mode are connected by address, too.
func TestLinkOutOfOrder(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{CM: fast})
	init := verbs.QPInit{Type: verbs.RC, OutOfOrder: true}
	client, server := newOwnOf(t, dev, init), newOwnOf(t, dev, init)
	near, far := linkedOf(t, dev, client, server)
	copy(client.mem, "hello")
	check(client.qp.PostSend(&verbs.SendWR{
		ID: 1, Op: verbs.OpWriteNotify, Flags: verbs.Signaled, Imm: 5, RemoteAddr: server.mr.VA(), RKey: server.mr.RKey(),
		SGL: []verbs.SGE{{Addr: client.mr.VA(), Len: 5, LKey: client.mr.LKey()}},
	}))
	if c := server.next(t); c.Status != verbs.StatusSuccess || c.Op != verbs.OpRecvNotify || c.WRID != 7 || c.Imm != 5 || string(server.mem[:c.Bytes]) != "hello" {
		t.Errorf("%+v %q", c, server.mem)
	}
	if c := client.next(t); c.Status != verbs.StatusSuccess || c.WRID != 1 {
		t.Errorf("%+v", c)
	}
	check(near.Close())
	<-far.Done()
	check(far.Close())
}

// A queue pair of the application is connected by address, and flushed at both ends when either of
// them closes.
func TestLink(t *testing.T) {
	for _, first := range []string{"client", "server"} {
		dev := openLoop(t, cmpeer.Config{CM: fast})
		client, server, near, far := linked(t, dev)
		if got := string(near.PeerPrivate()[:3]); got != "yes" || near.RemoteAddr().String() != far.LocalAddr().String() {
			t.Errorf("private data %q; %s is connected to %s", got, near.RemoteAddr(), far.LocalAddr())
		}
		check(client.qp.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled | verbs.Inline, Data: []byte("hello")}))
		if c := client.next(t); c.Status != verbs.StatusSuccess || c.WRID != 1 {
			t.Errorf("%+v", c)
		}
		if c := server.next(t); c.Status != verbs.StatusSuccess || string(server.mem[:c.Bytes]) != "hello" {
			t.Errorf("%+v %q", c, server.mem)
		}
		if near.Err() != nil || far.Err() != nil {
			t.Error(near.Err(), far.Err())
		}
		closes, other := near, far
		if first == "server" {
			closes, other = far, near
		}
		check(closes.Close())
		<-other.Done()
		if !errors.Is(other.Err(), rdma.ErrPeerClosed) || !errors.Is(closes.Err(), net.ErrClosed) {
			t.Errorf("%s closes: %v at the other end, %v at its own", first, other.Err(), closes.Err())
		}
		if c := client.next(t); c.Status != verbs.StatusWRFlushed || c.WRID != 7 {
			t.Errorf("%s closes: %+v", first, c)
		}
		check(other.Close())
		check(closes.Close())
	}
}

// A queue pair that cannot be connected is refused, and so is a request without a listener.
func TestLinkRefused(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{CM: fast})
	o := newOwn(t, dev)
	var rejected *rdma.RejectedError
	if _, err := rdma.Connect(testkit.Context(t), dev, "127.0.0.1:9", o.qp); !errors.As(err, &rejected) {
		t.Error(err)
	}
	pd, err := dev.AllocPD()
	check(err)
	ud, err := pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: o.cq, RecvCQ: o.cq, MaxSend: 1, MaxRecv: 1, MaxSendSGE: 1, MaxRecvSGE: 1})
	check(err)
	l := listen(t, dev, "127.0.0.1:0")
	if _, err := rdma.Connect(testkit.Context(t), dev, l.Addr().String(), ud); err == nil {
		t.Error("a UD queue pair is connected")
	}
	refused := make(chan error, 1)
	go func() {
		r, err := l.Next(context.Background())
		if err == nil {
			_, err = r.AcceptQP(context.Background(), ud)
		}
		refused <- err
	}()
	if _, err := rdma.Connect(testkit.Context(t), dev, l.Addr().String(), newOwn(t, dev).qp); !errors.As(err, &rejected) {
		t.Errorf("the server refuses: %v", err)
	}
	if err := <-refused; err == nil {
		t.Error("a UD queue pair is accepted")
	}
	failed := newOwn(t, dev)
	check(failed.qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState))
	sent := dev.Sent.Load()
	if _, err := rdma.Connect(testkit.Context(t), dev, l.Addr().String(), failed.qp); err == nil || !strings.Contains(err.Error(), "the queue pair is in ERR") {
		t.Errorf("a queue pair in ERR: %v", err)
	}
	if n := dev.Sent.Load() - sent; n != 0 {
		t.Errorf("%d messages were sent for a queue pair in ERR", n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := rdma.Connect(ctx, dev, l.Addr().String(), newOwn(t, dev).qp); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
