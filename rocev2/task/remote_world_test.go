// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// node is one end of a connection on an engine.
type node struct {
	t   testing.TB
	dev verbs.Device
	pd  verbs.PD
	cq  verbs.CQ
	qp  verbs.QP
}

// both returns two connected nodes on an engine of this process. Protection domains differ, so
// that no node can use a key of the other one.
func both(t testing.TB, depths ...int) (client, server *node) {
	t.Helper()
	dev := devices.Loopback(t)
	return connected(t, dev, depths...)
}

// connected is both for an engine that exists.
func connected(t testing.TB, dev verbs.Device, depths ...int) (client, server *node) {
	t.Helper()
	var ends [2]*node
	for i := range ends {
		n := &node{t: t, dev: dev}
		n.pd = testkit.Must1(dev.AllocPD())(t)
		n.cq = testkit.Must1(dev.CreateCQ(CQDepth(depths[i])))(t)
		n.qp = testkit.Must1(n.pd.CreateQP(QPInit(n.cq, depths[i])))(t)
		ends[i] = n
	}
	devices.Connect(t, ends[0].qp, ends[1].qp, verbs.DefaultAttr())
	return ends[0], ends[1]
}

// register returns memory of a node as an operand by rkey.
func (n *node) register(b []byte, typ Type, s Shape) (verbs.MR, Operand) {
	n.t.Helper()
	mr := testkit.Must1(n.pd.RegMR(b, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite))(n.t)
	return mr, Operand{VA: mr.VA(), Length: uint32(len(b)), Key: mr.RKey(), Type: typ, Shape: s}
}

// origin is register for memory of the node that a task comes from.
func (n *node) origin(b []byte, typ Type, s Shape) Operand {
	n.t.Helper()
	_, o := n.register(b, typ, s)
	o.Origin = true
	return o
}

// serve runs a server until the test ends, and returns how Serve ends.
func serve(t testing.TB, n *node, e *Executor, m Memory, depth int) <-chan error {
	t.Helper()
	s := testkit.Must1(NewServer(ServerConfig{Executor: e, PD: n.pd, QP: n.qp, CQ: n.cq, Memory: m, Depth: depth}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	ended := make(chan struct{})
	go func() { done <- s.Serve(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return done
}

func newExecutor(t testing.TB, c Config) *Executor {
	t.Helper()
	e := testkit.Must1(NewExecutor(c))(t)
	t.Cleanup(func() {
		ctx := testkit.Context(t)
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return e
}

func newClient(t testing.TB, n *node, depth int) *Client {
	t.Helper()
	c := testkit.Must1(NewClient(ClientConfig{PD: n.pd, QP: n.qp, CQ: n.cq, Depth: depth}))(t)
	t.Cleanup(func() { testkit.Must(t, c.Close()) })
	return c
}

// peer is a node that sends descriptors by itself.
type peer struct {
	*node
	b  []byte
	mr verbs.MR
}

func newPeer(n *node) *peer {
	p := &peer{node: n, b: make([]byte, 2*SlotLen)}
	p.mr = testkit.Must1(n.pd.RegMR(p.b, verbs.AccessLocalWrite))(n.t)
	return p
}

// send sends bytes, and returns the answer.
func (p *peer) send(b []byte, immediate bool) Answer {
	p.t.Helper()
	sge := func(at, n int) []verbs.SGE {
		return []verbs.SGE{{Addr: p.mr.VA() + uint64(at), Len: uint32(n), LKey: p.mr.LKey()}}
	}
	testkit.Must(p.t, p.qp.PostRecv(&verbs.RecvWR{ID: 1, SGL: sge(SlotLen, SlotLen)}))
	copy(p.b, b)
	testkit.Must(p.t, p.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: sge(0, len(b))}))
	c := devices.Next(p.t, p.cq)
	if c.Status != verbs.StatusSuccess || c.WRID != 1 {
		p.t.Fatalf("%+v", c)
	}
	if c.HasImm != immediate {
		p.t.Errorf("immediate data: %v, want %v", c.HasImm, immediate)
	}
	if c.HasImm {
		return AnswerOf(c.Imm)
	}
	a := testkit.Must1(ParseAnswer(p.b[SlotLen:][:c.Bytes]))(p.t)
	return a
}
