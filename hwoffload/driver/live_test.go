// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// liveWorld has two models of a card joined by a network on virtual time, and a device on each.
type liveWorld struct {
	t    testing.TB
	net  *card.Virtual
	side [2]*liveSide
}

type liveSide struct {
	m    *card.Model
	card *hwoffload.Card
	dev  *driver.Device
	addr netip.Addr
}

// newLiveWorld makes the network with faults and has it run until the test ends. polled has the
// devices poll for interrupts.
func newLiveWorld(t testing.TB, faults card.Faults, polled bool) *liveWorld {
	t.Helper()
	w := &liveWorld{t: t, net: card.NewVirtual(7)}
	w.net.Faults = faults
	for i := range w.side {
		s := &liveSide{m: card.New(), addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}
		w.side[i] = s
		backend := hwoffload.Device(s.m)
		if polled {
			backend = struct{ hwoffload.Device }{s.m} // without Interrupt
		}
		var err error
		s.card, err = hwoffload.Open(backend)
		w.must(err)
		peer := driver.Hop{MAC: mac(1 - i)}
		s.dev, err = driver.Open(s.card, driver.Config{Addrs: []netip.Addr{s.addr}, Resolve: func(dst netip.Addr) (driver.Hop, error) {
			if dst.As4()[3] != byte(2-i) {
				return driver.Hop{}, fmt.Errorf("nobody has %v", dst)
			}
			return peer, nil
		}})
		w.must(err)
		w.must(s.dev.SetPort(0, mac(i)))
	}
	w.net.Connect(w.side[0].m, 0, w.side[1].m, 0)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { w.net.Serve(ctx); close(ended) }()
	t.Cleanup(func() {
		for _, s := range w.side {
			if err := s.dev.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
		}
		cancel()
		<-ended
	})
	return w
}

func mac(i int) [6]byte { return [6]byte{2, 0, 0, 0, 0, byte(i + 1)} }

func (w *liveWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *liveWorld) limit() context.Context { return testkit.Context(w.t) }

// cores starts the cores of a card until the test ends.
func (w *liveWorld) cores(s *liveSide) {
	w.t.Helper()
	cores, err := s.m.StartTasks()
	w.must(err)
	w.t.Cleanup(func() { w.must(cores.Close(context.Background())) })
}

// node is a queue pair of a device, with what belongs to it.
type node struct {
	*liveSide
	w  *liveWorld
	pd verbs.PD
	cq verbs.CQ
	qp verbs.QP
}

func (w *liveWorld) node(s *liveSide, init func(*verbs.QPInit)) *node {
	w.t.Helper()
	n := &node{liveSide: s, w: w}
	var err error
	n.pd, err = s.dev.AllocPD()
	w.must(err)
	n.cq, err = s.dev.CreateCQ(task.CQDepth(0))
	w.must(err)
	i := task.QPInit(n.cq, 0)
	init(&i)
	n.qp, err = n.pd.CreateQP(i)
	w.must(err)
	w.must(verbs.ToInit(n.qp, verbs.Endpoint{QKey: qkey}, verbs.DefaultAttr()))
	return n
}

// pair makes two nodes, which are in INIT.
func (w *liveWorld) pair(init func(*verbs.QPInit)) (a, b *node) {
	w.t.Helper()
	return w.node(w.side[0], init), w.node(w.side[1], init)
}

func rc(*verbs.QPInit) {}

func (w *liveWorld) connect(a, b *node) {
	w.t.Helper()
	x := verbs.Endpoint{Addr: a.addr, QPN: a.qp.QPN(), PSN: 0xfffff0, QKey: qkey}
	y := verbs.Endpoint{Addr: b.addr, QPN: b.qp.QPN(), PSN: 7, QKey: qkey}
	w.must(errors.Join(verbs.Connect(a.qp, x, y, verbs.DefaultAttr()), verbs.Connect(b.qp, y, x, verbs.DefaultAttr())))
}

// memory registers memory with these bytes.
func (n *node) memory(b []byte, access verbs.Access) verbs.DM {
	n.w.t.Helper()
	m, err := verbs.NewMemory(n.pd, len(b), access)
	n.w.must(err)
	_, err = m.WriteAt(b, 0)
	n.w.must(err)
	return m
}

// bytes reads all memory.
func (w *liveWorld) bytes(m verbs.DM) []byte {
	w.t.Helper()
	b := make([]byte, m.Len())
	_, err := m.ReadAt(b, 0)
	w.must(err)
	return b
}

func sge(m verbs.MR, off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: m.VA() + uint64(off), Len: uint32(n), LKey: m.LKey()}}
}

// next waits for one completion.
func (n *node) next() verbs.Completion {
	n.w.t.Helper()
	return devices.Next(n.w.t, n.cq)
}

// ends wants a completion with a status.
func (n *node) ends(id uint64, s verbs.Status) verbs.Completion {
	n.w.t.Helper()
	c := n.next()
	if c.WRID != id || c.Status != s || c.QPN != n.qp.QPN() {
		n.w.t.Errorf("%+v, want id %d and status %v", c, id, s)
	}
	return c
}

// operand is memory as an operand by rkey. origin: of the node that sends the task.
func operand(m verbs.DM, typ task.Type, origin bool, s ...uint32) task.Operand {
	o := task.Operand{VA: m.VA(), Length: uint32(m.Len()), Key: m.RKey(), Type: typ, Origin: origin}
	copy(o.Shape[:], s)
	return o
}
