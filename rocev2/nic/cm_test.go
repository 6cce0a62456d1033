// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"bytes"
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
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

const cmPort = mad.ServiceID(0x01060000 | 7174)

// program is an application: a session of its own, and queue pairs of a device.
type program struct {
	dev  *nic.Device
	addr netip.Addr
	s    cm.Session
	pd   verbs.PD
	cq   verbs.CQ
	buf  []byte
	mr   verbs.MR
}

func newProgram(t testing.TB, dev *nic.Device, addr netip.Addr) *program {
	t.Helper()
	p := &program{dev: dev, addr: addr, buf: make([]byte, 1<<16)}
	p.s = testkit.Must1(dev.OpenCM())(t)
	t.Cleanup(func() { _ = p.s.Close() })
	p.pd = testkit.Must1(dev.AllocPD())(t)
	p.cq = testkit.Must1(dev.CreateCQ(1024))(t)
	p.mr = testkit.Must1(p.pd.RegMR(p.buf, engines.Access))(t)
	return p
}

// await takes the next event, which must be of a kind.
func (p *program) await(t testing.TB, want cm.Kind) cm.Event {
	t.Helper()
	select {
	case e, open := <-p.s.Events():
		if !open || e.Kind != want {
			t.Fatalf("event %s (%v), want %s\n%s", e.Kind, e.Err, want, dump(p.dev))
		}
		return e
	case <-time.After(testkit.Patience):
		t.Fatalf("no event, want %s\n%s", want, dump(p.dev))
	}
	return cm.Event{}
}

// newQP makes a queue pair in INIT with a receive for the first half of the buffer.
func (p *program) newQP(t testing.TB) verbs.QP {
	t.Helper()
	q := testkit.Must1(p.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: p.cq, RecvCQ: p.cq}))(t)
	testkit.Must(t, verbs.ToInit(q, verbs.Endpoint{}, verbs.DefaultAttr()))
	testkit.Must(t, q.PostRecv(&verbs.RecvWR{SGL: p.sge(0, len(p.buf)/2)}))
	return q
}

func (p *program) sge(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: p.mr.VA() + uint64(off), Len: uint32(n), LKey: p.mr.LKey()}}
}

func (p *program) poll(t testing.TB, want verbs.Op) verbs.Completion {
	t.Helper()
	c, err := engines.PollOne(p.cq, testkit.Patience)
	if err != nil || c.Status != verbs.StatusSuccess || c.Op != want {
		t.Fatalf("%+v, %v, want operation %d\n%s", c, err, want, dump(p.dev))
	}
	return c
}

func (p *program) params(to *program, q verbs.QP) cm.ConnectParams {
	attr := verbs.DefaultAttr()
	patient(&attr)
	return cm.ConnectParams{
		Local: p.addr, Peer: to.addr, Service: cmPort, SrcPort: 4000, QPN: q.QPN(), PSN: 0x111, Attr: attr,
		Private: []byte("hello"),
	}
}

// dial connects a queue pair of p with one of to, which listens. The peer accepts.
func (p *program) dial(t testing.TB, to *program) (a, b verbs.QP, idA, idB cm.ID) {
	t.Helper()
	a = p.newQP(t)
	idA = testkit.Must1(p.s.Connect(p.params(to, a)))(t)
	req := to.await(t, cm.Request)
	if !bytes.HasPrefix(req.Private, []byte("hello")) || req.SrcPort != 4000 || req.Path.Remote.Addr != p.addr {
		t.Errorf("the request is %+v", req)
	}
	b = to.newQP(t)
	path := req.Path
	path.Local.QPN, path.Remote.PSN = b.QPN(), 0x222
	testkit.Must(t, path.Connect(b))
	testkit.Must(t, to.s.Accept(req.ID, path, []byte("welcome")))
	rep := p.await(t, cm.Reply)
	testkit.Must(t, rep.Path.Connect(a))
	testkit.Must(t, p.s.Ready(idA, nil))
	p.await(t, cm.Established)
	to.await(t, cm.Established)
	return a, b, idA, req.ID
}

// exchange sends n bytes with each queue pair and compares them.
func exchange(t testing.TB, a, b *program, qa, qb verbs.QP, n int) {
	t.Helper()
	for i, dir := range []struct {
		from, to *program
		q        verbs.QP
	}{{a, b, qa}, {b, a, qb}} {
		half := len(dir.from.buf) / 2
		for k := range n {
			dir.from.buf[half+k] = byte(k*7 + i)
		}
		testkit.Must(t, dir.q.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: dir.from.sge(half, n)}))
		if got := dir.to.poll(t, verbs.OpRecv); int(got.Bytes) != n || !bytes.Equal(dir.to.buf[:n], dir.from.buf[half:half+n]) {
			t.Errorf("%d bytes arrived, or others than were sent", got.Bytes)
		}
		dir.from.poll(t, verbs.OpSend)
	}
}

// hangUp disconnects at a; both ends get to know, and the IDs end.
func hangUp(t testing.TB, a, b *program, id cm.ID, qs ...verbs.QP) {
	t.Helper()
	testkit.Must(t, a.s.Disconnect(id, nil))
	for _, p := range []*program{a, b} {
		p.await(t, cm.Disconnected)
		p.await(t, cm.Gone)
	}
	for _, q := range qs {
		testkit.Must(t, q.Destroy())
	}
}

// Two sessions of a loopback device connect with each other at both of its addresses; what nobody
// listens to is refused.
func TestCMLoopback(t *testing.T) {
	dev := devices.Loopback(t)
	for _, addr := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
		t.Run(addr.String(), func(t *testing.T) {
			a, b := newProgram(t, dev, addr), newProgram(t, dev, addr)
			q := a.newQP(t)
			_, err := a.s.Connect(a.params(b, q))
			testkit.Must(t, err)
			var rejected *cm.RejectedError
			if e := a.await(t, cm.Failed); !errors.As(e.Err, &rejected) || rejected.Reason != mad.ReasonInvalidServiceID {
				t.Errorf("nobody listens: %v", e.Err)
			}
			a.await(t, cm.Gone)
			testkit.Must(t, q.Destroy())

			testkit.Must(t, b.s.Listen(cmPort, 0))
			qa, qb, id, _ := a.dial(t, b)
			exchange(t, a, b, qa, qb, 20000)
			hangUp(t, a, b, id, qa, qb)
			if n := counter(dev, "cm_unexpected"); n == 0 { // the request that nobody listened to
				t.Errorf("counted %s", dump(dev))
			}
			testkit.Must(t, a.s.Close())
			testkit.Must(t, b.s.Close())
		})
	}
}

// The end of a device ends its sessions, and it has no others.
func TestCMDeviceClosed(t *testing.T) {
	dev := devices.Loopback(t)
	s := testkit.Must1(dev.OpenCM())(t)
	testkit.Must(t, dev.Close())
	if e, open := <-s.Events(); open {
		t.Errorf("event %s after the end", e.Kind)
	}
	if err := s.Listen(cmPort, 0); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("Listen: %v", err)
	}
	if _, err := dev.OpenCM(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("OpenCM: %v", err)
	}
}

// cmPair are programs on two hosts with engines.
func cmPair(t *testing.T, v6 bool, o nic.Options) (a, b *program, hosts []*engines.Host) {
	t.Helper()
	hosts = engines.New(t, topo.Spec{Hosts: topo.Hosts(2)}, "--policy", "mode=fixed")
	for _, h := range hosts {
		h.MustOpen(t, o)
	}
	return newProgram(t, hosts[0].Dev, hosts[0].Addr(v6)), newProgram(t, hosts[1].Dev, hosts[1].Addr(v6)), hosts
}

// Two engines connect over attached interfaces, in both directions, and with themselves.
func TestCMBetweenEngines(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		t.Run(fmt.Sprintf("v6=%v", v6), func(t *testing.T) {
			a, b, hosts := cmPair(t, v6, nic.Options{})
			testkit.Must(t, b.s.Listen(cmPort, 0))
			for range 3 {
				qa, qb, id, _ := a.dial(t, b)
				exchange(t, a, b, qa, qb, 5000)
				hangUp(t, a, b, id, qa, qb)
			}
			testkit.Must(t, a.s.Listen(cmPort, 0))
			qb, qa, _, idA := b.dial(t, a)
			exchange(t, b, a, qb, qa, 5000)
			hangUp(t, a, b, idA, qa, qb)

			c := newProgram(t, hosts[0].Dev, a.addr)
			qc, qa, id, _ := c.dial(t, a)
			exchange(t, c, a, qc, qa, 5000)
			hangUp(t, c, a, id, qc, qa)
			for _, h := range hosts {
				if n := counter(h.Dev, "rx_cm_messages"); n == 0 {
					t.Errorf("%s received no message: %s", h.Name(), dump(h.Dev))
				}
			}
		})
	}
}

// The first data stands for the RTU that was lost: a never sends it.
func TestCMEstablishedByData(t *testing.T) {
	dev := devices.Loopback(t)
	addr := netip.MustParseAddr("127.0.0.1")
	a, b := newProgram(t, dev, addr), newProgram(t, dev, addr)
	testkit.Must(t, b.s.Listen(cmPort, 0))
	q := a.newQP(t)
	_, err := a.s.Connect(a.params(b, q))
	testkit.Must(t, err)
	req := b.await(t, cm.Request)
	peer := b.newQP(t)
	path := req.Path
	path.Local.QPN, path.Remote.PSN = peer.QPN(), 0x222
	testkit.Must(t, path.Connect(peer))
	testkit.Must(t, b.s.Accept(req.ID, path, nil))
	testkit.Must(t, a.await(t, cm.Reply).Path.Connect(q))
	testkit.Must(t, q.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: a.sge(0, 10)}))
	b.poll(t, verbs.OpRecv)
	b.await(t, cm.Established)
}
