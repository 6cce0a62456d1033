// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/stream"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// bothDevices runs a test on an engine in this process and on one that is served.
func bothDevices(t *testing.T, test func(t *testing.T, d verbs.Device)) {
	t.Run("in process", func(t *testing.T) {
		d := devices.Loopback(t)
		test(t, d)
	})
	t.Run("served", func(t *testing.T) {
		_, dir := serve(t, device.Config{})
		test(t, open(t, dir))
	})
}

// What a device cannot do is refused, with the value, by both kinds of device in the same way.
func TestRefusedValues(t *testing.T) {
	bothDevices(t, func(t *testing.T, d verbs.Device) {
		pd, other := testkit.Must1(d.AllocPD())(t), testkit.Must1(d.AllocPD())(t)
		cq := testkit.Must1(d.CreateCQ(16))(t)
		srq := testkit.Must1(pd.CreateSRQ(8, 1))(t)
		refused := func(what string, err error, part string) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", what, err, part)
			}
		}
		for _, n := range []int{-1, 9, 1 << 40} {
			if err := srq.SetLimit(n); err == nil {
				t.Errorf("a limit of %d of an SRQ of 8 is taken", n)
			}
		}
		refused("limit 9", srq.SetLimit(9), "choose 0 to 8")
		for _, n := range []int{8, 0} {
			if err := srq.SetLimit(n); err != nil {
				t.Errorf("a limit of %d: %v", n, err)
			}
		}
		base := verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}
		foreign := base
		foreign.SRQ = srq
		_, err := other.CreateQP(foreign)
		refused("an SRQ of another protection domain", err, "the shared receive queue is of another protection domain")
		for what, change := range map[string]func(*verbs.QPInit){
			"MaxSend is -1":    func(i *verbs.QPInit) { i.MaxSend = -1 },
			"MaxRecv is -2":    func(i *verbs.QPInit) { i.MaxRecv = -2 },
			"MaxSendSGE is -3": func(i *verbs.QPInit) { i.MaxSendSGE = -3 },
			"MaxRecvSGE is -4": func(i *verbs.QPInit) { i.MaxRecvSGE = -4 },
			"MaxInline is -5":  func(i *verbs.QPInit) { i.MaxInline = -5 },
		} {
			i := base
			change(&i)
			_, err := pd.CreateQP(i)
			refused("a queue pair", err, what)
		}
		q := testkit.Must1(pd.CreateQP(base))(t)
		if err := q.Modify(verbs.Attr{State: verbs.StateInit}, verbs.MaskState); err == nil {
			t.Error("INIT without an access")
		}
		devices.Connect(t, q, q, verbs.DefaultAttr())
		if err := q.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: 1 << 4}); !errors.Is(err, verbs.ErrFlags) {
			t.Errorf("an unknown flag: %v", err)
		}
		if err := q.Destroy(); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Query(); !errors.Is(err, verbs.ErrDestroyed) {
			t.Errorf("Query: %v", err)
		}
		if err := q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState); !errors.Is(err, verbs.ErrDestroyed) {
			t.Errorf("Modify: %v", err)
		}
	})
}

// A failed send is a solicited completion on both kinds of device, as verbs.Completion says.
func TestFailedSendIsSolicited(t *testing.T) {
	bothDevices(t, func(t *testing.T, d verbs.Device) {
		pd := testkit.Must1(d.AllocPD())(t)
		cq := testkit.Must1(d.CreateCQ(16))(t)
		q := testkit.Must1(pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}))(t)
		devices.Connect(t, q, q, verbs.DefaultAttr())
		ctx := testkit.Context(t)
		for _, want := range []verbs.Status{verbs.StatusLocalProtection, verbs.StatusWRFlushed} {
			if err := q.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: 1, Len: 1, LKey: 1}}}); err != nil {
				t.Fatal(err)
			}
			if err := cq.Wait(ctx, false); err != nil {
				t.Fatal(err)
			}
			var c [1]verbs.Completion
			if cq.Poll(c[:]); c[0].Status != want || !c[0].Solicited {
				t.Errorf("%s, solicited %v; want %s", c[0].Status, c[0].Solicited, want)
			}
		}
	})
}

// After the end of the device, Close of a stream and of a connection says so once.
func TestCloseAfterDevice(t *testing.T) {
	s, dir := serve(t, device.Config{})
	a, b := open(t, dir), open(t, dir)
	ctx := testkit.Context(t)
	l := testkit.Must1(stream.Listen(ctx, b, "127.0.0.1:0"))(t)
	go func() {
		_, _ = l.Accept() // the connection that is dialed
	}()
	c := testkit.Must1(stream.Dial(ctx, a, l.Addr().String()))(t)
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	plain := testkit.Must1(rdma.Listen(ctx, b, "127.0.0.1:0"))(t)
	go func() {
		if c, err := plain.Accept(ctx); err == nil {
			_, _ = c.RecvMessage(ctx) // until the device ends
		}
	}()
	conn := testkit.Must1(rdma.Dial(ctx, a, plain.Addr().String(), rdma.WithMaxMessage(1000)))(t)
	if _, err := conn.Do(ctx, &verbs.SendWR{Op: verbs.OpWrite}); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	<-s.Ended()
	for what, err := range map[string]error{"stream": c.Close(), "connection": conn.Close()} {
		if err == nil || !errors.Is(err, verbs.ErrGone) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q", what, err)
		}
	}
}

// A program of another process writes with immediate data, less and more than a receive buffer has.
func TestServedWriteWithImmediate(t *testing.T) {
	_, dir := serve(t, device.Config{})
	a, b := open(t, dir), open(t, dir)
	ctx := testkit.Context(t)
	l := testkit.Must1(rdma.Listen(ctx, b, "127.0.0.1:0", rdma.WithMaxMessage(1000)))(t)
	accepted := make(chan *rdma.Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	client := testkit.Must1(rdma.Dial(ctx, a, l.Addr().String(), rdma.WithMaxMessage(1000)))(t)
	server := <-accepted
	if server == nil {
		return
	}
	defer server.Close()
	defer client.Close()
	region := testkit.Must1(server.Register(make([]byte, 5000), verbs.AccessLocalWrite|verbs.AccessRemoteWrite))(t)
	source := testkit.Must1(client.Register(make([]byte, 5000), 0))(t)
	if err := client.Send(ctx, []byte("an earlier message")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		kind rdma.MessageKind
		n    int
	}{{rdma.KindSend, 18}, {rdma.KindWrite, 10}, {rdma.KindWrite, 5000}} {
		if want.kind == rdma.KindWrite {
			wr := &verbs.SendWR{
				Op: verbs.OpWriteImm, Imm: 7, SGL: []verbs.SGE{source.SGE(0, want.n)},
				RemoteAddr: region.Remote().Addr, RKey: region.Remote().RKey,
			}
			if _, err := client.Do(ctx, wr); err != nil {
				t.Fatal(err)
			}
		}
		m := testkit.Must1(server.RecvMessage(ctx))(t)
		if m.Kind() != want.kind || m.Len() != want.n || (len(m.Bytes()) > 0) != (want.kind == rdma.KindSend) {
			t.Errorf("%s, length %d, %q; want %s of %d", m.Kind(), m.Len(), m.Bytes(), want.kind, want.n)
		}
		if err := m.Release(); err != nil {
			t.Fatal(err)
		}
	}
}
