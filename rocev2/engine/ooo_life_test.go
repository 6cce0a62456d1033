// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A wrong key, a range that is too long, or a right that the queue pair does not give: the message fails,
// memory does not change, and the queue pair is of use still.
func TestOutOfOrderRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newOOOPair(t, 3, 16)
		before := bytes.Clone(p.mem[1])
		bad := func(id uint64, op verbs.Op, edit func(*verbs.SendWR)) {
			wr := verbs.SendWR{
				ID: id, Op: op, SGL: []verbs.SGE{{Addr: p.keys[0].VA(), Len: 3000, LKey: p.keys[0].LKey()}},
				RemoteAddr: p.keys[1].VA(), RKey: p.keys[1].RKey(),
			}
			edit(&wr)
			if err := p.qps[0].PostSend(&wr); err != nil {
				t.Fatal(err)
			}
			p.sent++
			p.until()
		}
		bad(1, verbs.OpWrite, func(wr *verbs.SendWR) { wr.RKey ^= 1 })
		bad(2, verbs.OpRead, func(wr *verbs.SendWR) { wr.RemoteAddr += oooMemoryLen - 1000 })
		bad(3, verbs.OpWrite, func(wr *verbs.SendWR) { wr.SGL[0].LKey ^= 1 })
		rights := func(r verbs.Access) {
			if err := p.qps[1].transport.Modify(verbs.Attr{Access: r}, verbs.MaskAccess); err != nil {
				t.Fatal(err)
			}
		}
		rights(verbs.AccessRemoteRead)
		bad(4, verbs.OpWriteNotify, func(*verbs.SendWR) {})
		for id, want := range map[uint64]verbs.Status{
			1: verbs.StatusRemoteAccess, 2: verbs.StatusRemoteAccess, 3: verbs.StatusLocalProtection, 4: verbs.StatusRemoteAccess,
		} {
			if got := p.got[id].Status; got != want {
				t.Errorf("message %d: %s, want %s", id, got, want)
			}
		}
		if len(p.recv) != 0 || !bytes.Equal(before, p.mem[1]) {
			t.Error("a refused message has reached memory or the consumer")
		}
		rights(verbs.AccessRemoteRead | verbs.AccessRemoteWrite)
		p.order(5, verbs.OpWrite, 0, 3000)
		p.until()
		if p.got[5].Status != verbs.StatusSuccess || p.qps[0].State() != verbs.StateRTS {
			t.Errorf("after errors: %s, %s", p.got[5].Status, p.qps[0].State())
		}
	})
}

// A notification without a receive work request waits for one: nothing is lost, and it comes once.
func TestOutOfOrderNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newOOOPair(t, 4, 16)
		p.order(1, verbs.OpWriteNotify, 0, 100)
		for range 200 {
			if err := p.iterate(5 * time.Microsecond); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(p.cq.list); n != 0 || p.e.ooo.count.NotReady == 0 {
			t.Fatalf("%d completions without a receive; %d refusals", n, p.e.ooo.count.NotReady)
		}
		if err := p.qps[1].PostRecv(&verbs.RecvWR{ID: 9}); err != nil {
			t.Fatal(err)
		}
		p.until()
		if p.got[1].Status != verbs.StatusSuccess || len(p.recv) != 1 || p.recv[0].WRID != 9 || p.recv[0].Imm != 1 {
			t.Errorf("%+v, %+v", p.got[1], p.recv)
		}
	})
}

// The peer is destroyed in the middle: the source gives up, each work request completes once, the oldest
// with the reason, and the queue pair is in ERR. Work requests of later are flushed.
func TestOutOfOrderPeerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 3000 // more than package ooo has outstanding
		p := newOOOPair(t, 5, 4096)
		for id := range uint64(messages) {
			p.order(id, verbs.OpWrite, 0, 5000)
		}
		for range 20 {
			if err := p.iterate(5 * time.Microsecond); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(p.cq.list); got == messages {
			t.Fatal("all is done before the peer goes")
		}
		p.e.RemoveQP(p.qps[1])
		p.until()
		reasons, flushed := 0, 0
		for id, c := range p.got {
			switch c.Status {
			case verbs.StatusSuccess:
			case verbs.StatusRetryExceeded:
				reasons++
			case verbs.StatusWRFlushed:
				flushed++
			default:
				t.Errorf("message %d: %s", id, c.Status)
			}
		}
		if reasons != 1 || flushed == 0 || p.qps[0].State() != verbs.StateErr {
			t.Errorf("%d reasons, %d flushed, state %s", reasons, flushed, p.qps[0].State())
		}
		p.order(messages, verbs.OpWrite, 0, 10)
		p.until()
		if p.got[messages].Status != verbs.StatusWRFlushed || p.qps[0].transport.SendQueued() != 0 {
			t.Errorf("posted in ERR: %s; %d are queued", p.got[messages].Status, p.qps[0].transport.SendQueued())
		}
	})
}

// ERR flushes all work requests of both queues, RESET drops them. After RESET the queue pair can be connected
// again.
func TestOutOfOrderStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newOOOPair(t, 6, 128)
		p.link.loss = 1 // nothing is answered
		for _, to := range []verbs.State{verbs.StateErr, verbs.StateReset} {
			for id := range uint64(100) {
				p.order(1000*uint64(to)+id, verbs.OpWrite, 0, 10_000)
			}
			if err := p.qps[0].PostRecv(&verbs.RecvWR{ID: 77}); err != nil {
				t.Fatal(err)
			}
			if err := p.iterate(5 * time.Microsecond); err != nil {
				t.Fatal(err)
			}
			if err := (fixedPath{p.qps[0]}).Modify(verbs.Attr{State: to}, verbs.MaskState); err != nil {
				t.Fatal(err)
			}
			if err := p.iterate(5 * time.Microsecond); err != nil {
				t.Fatal(err)
			}
			n := p.cq.take(p.batch[:])
			for _, c := range p.batch[:n] {
				if c.Status != verbs.StatusWRFlushed {
					t.Errorf("%+v", c)
				}
			}
			if want := map[verbs.State]int{verbs.StateErr: 101}[to]; n != want || p.qps[0].queued() != 0 {
				t.Errorf("%s: %d completions, want %d; %d work requests are queued", to, n, want, p.qps[0].queued())
			}
			if err := (fixedPath{p.qps[0]}).Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState); err != nil {
				t.Fatal(err)
			}
			attr := verbs.DefaultAttr()
			attr.PMTU = rocev2.PMTU1024
			if err := verbs.Connect(fixedPath{p.qps[0]}, verbs.Endpoint{}, verbs.Endpoint{QPN: p.qps[1].num, PSN: 7}, attr); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What the mode does not have is refused: at creation, by Modify, by PostSend.
func TestOutOfOrderLimits(t *testing.T) {
	for _, init := range []verbs.QPInit{
		{Type: verbs.UC, OutOfOrder: true}, {Type: verbs.RC, OutOfOrder: true, MaxInline: 1}, {Type: verbs.RC, OutOfOrder: true, MaxSendSGE: 2},
		{Type: verbs.RC, Payload: 1024}, {Type: verbs.RC, OutOfOrder: true, Payload: 1390}, {Type: verbs.RC, OutOfOrder: true, Payload: 252},
	} {
		if err := CheckOutOfOrder(&init); err == nil {
			t.Errorf("%+v is taken", init)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		p := newOOOPair(t, 7, 4)
		x := p.qps[0]
		if !isOutOfOrder(x.num) {
			t.Errorf("the number %#x does not show the mode", x.num)
		}
		if err := x.core.modifyError(x, verbs.Attr{State: verbs.StateSQD}, verbs.MaskState); err == nil {
			t.Error("SQD is taken")
		}
		sge := verbs.SGE{Addr: p.keys[0].VA(), Len: 8, LKey: p.keys[0].LKey()}
		for want, wr := range map[error]verbs.SendWR{
			verbs.ErrOp: {Op: verbs.OpSend}, verbs.ErrInline: {Op: verbs.OpWrite, Flags: verbs.Inline, Data: []byte{1}},
			verbs.ErrSGL: {Op: verbs.OpWrite, SGL: []verbs.SGE{sge, sge}}, verbs.ErrUnordered: {Op: verbs.OpWrite, Flags: verbs.Fence},
			verbs.ErrTooLong: {Op: verbs.OpWrite, SGL: []verbs.SGE{{Len: verbs.MaxMessage + 1}}},
		} {
			if err := x.PostSend(&wr); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		for range 4 {
			p.order(uint64(p.sent), verbs.OpWrite, 0, 8)
		}
		if err := x.PostSend(&verbs.SendWR{Op: verbs.OpWrite}); !errors.Is(err, verbs.ErrQueueFull) {
			t.Errorf("a fifth of four: %v", err)
		}
		p.until()

		plain := p.connect(verbs.RC, rocev2.PMTU1024, 4)
		y := p.newOOOQP(4)
		attr := verbs.DefaultAttr()
		attr.PMTU = rocev2.PMTU1024
		if err := verbs.Connect(fixedPath{y}, verbs.Endpoint{}, verbs.Endpoint{QPN: plain.num}, attr); err == nil {
			t.Error("a peer without the mode is taken")
		}
		for payload, want := range map[int]string{1392: "", 1396: "has room for 1392"} { // the path has an MTU of 1500
			x, y := p.newPayloadQP(4, payload), p.newPayloadQP(4, payload)
			err := verbs.Connect(remotePath{x}, verbs.Endpoint{}, verbs.Endpoint{QPN: y.num}, attr)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("payload %d: %v, want %q", payload, err, want)
			}
		}
	})
}

func (e *Core) modifyError(x *QP, a verbs.Attr, mask verbs.AttrMask) error {
	_, err := e.Modify(x, &a, mask, nil)
	return err
}

// A peer that HELLO does not announce gets no packet of the mode. The queue pair ends in bounded time, with
// an event that says why. One that is announced meanwhile gets the data.
func TestOutOfOrderUnannounced(t *testing.T) {
	for _, announced := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLoopback(t, 8)
			e, x := l.e, &QP{}
			var reason error // that of the last event
			config := l.config(verbs.RC, 4)
			config.OutOfOrder = true
			config.Notify = func(t verbs.EventType) { l.events, reason = append(l.events, t), x.FatalReason() }
			if err := e.AddQP(x, config); err != nil {
				t.Fatal(err)
			}
			e.Begin(testNow())
			attr := verbs.DefaultAttr()
			attr.PMTU = rocev2.PMTU1024
			path := remotePath{x}
			e.dests.rails[0].dests[peer] = &dest{addr: peer, pacer: newBucket(0), flight: qp.NewFlight(), syncQueued: true, refs: 1}
			if err := verbs.Connect(path, verbs.Endpoint{}, verbs.Endpoint{QPN: x.num + 1}, attr); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				l.post(x, verbs.OpWrite, 100)
			}
			start := e.now
			for x.State() == verbs.StateRTS && e.now < start+20e9 {
				if o := x.nextData(e, &x.egress); o != nil {
					if !announced || !x.dest.ooo {
						t.Fatalf("%s was sent", o.Opcode)
					}
					return
				}
				at := x.deadline()
				if at <= e.now {
					t.Fatalf("the deadline is %d, now is %d", at, e.now)
				}
				x.dest.ooo = announced && at-start > 1e9
				e.now = at
				e.expire(x)
			}
			if d := e.now - start; announced || x.State() != verbs.StateErr || d < ooo.AskTime || d > ooo.AskTime+2*ooo.AskPeriod {
				t.Fatalf("%s after %d ns", x.State(), d)
			}
			n := l.cq.take(l.batch[:])
			if n != 2 || l.batch[0].Status != verbs.StatusRemoteInvalidRequest || l.batch[1].Status != verbs.StatusWRFlushed {
				t.Errorf("%+v", l.batch[:n])
			}
			if ev := l.events; !slices.Equal(ev, []verbs.EventType{verbs.EventQPFatal}) || !errors.Is(reason, ErrNotOutOfOrder) {
				t.Errorf("events %v: %v", ev, reason)
			}
		})
	}
}

// remotePath is fixedPath to another host.
type remotePath struct{ *QP }

func (x remotePath) Modify(a verbs.Attr, mask verbs.AttrMask) error {
	var path *Path
	if a.State == verbs.StateRTR {
		path = fixed(PathState{Src: us, Dst: peer, Ether: [14]byte{12: 8}, MTU: 1500, PMTU: rocev2.PMTU1024})
	}
	_, err := x.core.Modify(x.QP, &a, mask, path)
	return err
}

// What a packet of the mode needs fits the MTU of a path and the frames of its interface, with the stamp if it
// has one.
func TestOutOfOrderFits(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for _, c := range []struct {
		payload    int
		dst        netip.Addr
		loopback   bool
		mtu, frame int
		want       string
	}{
		{0, v4, false, 1104, 9000, ""},
		{0, v4, false, 1103, 9000, "needs an MTU of 1104"},
		{0, v6, false, 1112, 9000, ""},
		{0, v6, false, 1111, 9000, "needs an MTU of 1112"},
		{0, v6, false, 9000, 1111, "needs an MTU of 1112"},
		{1392, v4, false, 1500, 9000, ""},
		{1396, v4, false, 1500, 9000, "has room for 1392"},
		{1372, v6, false, 1500, 9000, ""},
		{1376, v6, false, 1500, 9000, "has room for 1372"},
		{1376, v6, false, 9000, 1500, "has room for 1372"},
		{1432, v4, true, 1500, 9000, ""},
		{1436, v4, true, 1500, 9000, "has room for 1432"},
	} {
		o := oooQP{payload: c.payload}
		err := o.fitsPath(rocev2.PMTU1024, &PathState{Dst: c.dst, MTU: c.mtu, Loopback: c.loopback}, c.frame, "eth0")
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
