// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Settings are what two endpoints agree on, with the limits of their queues.
type Settings struct {
	Type      qp.Type
	PMTU      rocev2.PMTU
	Selective bool
	PSN       [2]rocev2.PSN // first PSN of each direction

	RdAtomic    uint8 // outstanding READs and ATOMICs
	Timeout     uint8
	RetryCnt    uint8
	RNRRetry    uint8
	MinRNRTimer uint8

	MaxSend   int
	Receives  int // buffers
	RecvDelay qp.Time
	SRQ       bool
	Hold      int // packets that all queue pairs of a node keep behind holes

	AckPackets uint32 // see qp.Config
}

const qKey = 0x11223344

// NewEndpoint makes an application with a queue pair in RESET on node n. The
// supply of receives is its own if recv is nil.
func NewEndpoint(n *Node, qpn, pd uint32, s *Settings, recv *Supply) *Endpoint {
	e := &Endpoint{Name: fmt.Sprintf("%s/QP%d", n.Name, qpn), Node: n, maxSend: s.MaxSend}
	cfg := qp.Config{
		QPN: qpn, Type: s.Type, PD: pd, Memory: n.Mem,
		SendCQ: sendQueue{e}, RecvCQ: recvQueue{e}, Count: &n.Count,
		Notify: func(ev qp.Event) { e.Events = append(e.Events, ev) },
		Held:   n.hold(s.Hold), MaxSend: s.MaxSend, MaxRecv: s.Receives, MaxSendSGE: maxSGE, MaxRecvSGE: maxSGE, MaxInline: maxInline,
		AckPackets: s.AckPackets,
	}
	if recv != nil {
		cfg.SRQ = recv.SRQ
		e.Recv = recv.Receives
	}
	e.QP = qp.New(cfg)
	if recv == nil {
		e.Recv = newReceives(n, pd, s.Receives, maxMessage+qp.GRHLen)
		e.Recv.Delay = s.RecvDelay
		e.Recv.post = e.QP.PostRecv
	}
	e.makeMemory(pd)
	n.endpoints = append(n.endpoints, e)
	n.Tick = n.work
	return e
}

// hold is the node's pool, made when first asked for.
func (n *Node) hold(packets int) *qp.HoldPool {
	if n.held == nil {
		n.held = qp.NewHoldPool(packets)
	}
	return n.held
}

func (n *Node) work() {
	for _, e := range n.endpoints {
		e.work()
	}
}

// Connect takes the queue pairs of a and b through the states to RTS.
func Connect(a, b *Endpoint, s *Settings) {
	a.Peer, b.Peer = b, a
	a.Node.Attach(a.QP, b.Node)
	b.Node.Attach(b.QP, a.Node)
	a.Up(b.QP.QPN(), s.PSN[0], s.PSN[1], s)
	b.Up(a.QP.QPN(), s.PSN[1], s.PSN[0], s)
}

// Up takes the queue pair to RTS and posts its receives.
func (e *Endpoint) Up(peer uint32, sqPSN, rqPSN rocev2.PSN, s *Settings) {
	steps := []qp.Attr{
		{State: qp.Init, QKey: qKey, Access: mem.RemoteWrite | mem.RemoteRead | mem.RemoteAtomic},
		{
			State: qp.RTR, PMTU: s.PMTU, DestQPN: peer, RQPSN: rqPSN, MaxDestRdAtomic: s.RdAtomic,
			MinRNRTimer: s.MinRNRTimer,
		},
		{
			State: qp.RTS, SQPSN: sqPSN, MaxRdAtomic: s.RdAtomic, Timeout: s.Timeout,
			RetryCnt: s.RetryCnt, RNRRetry: s.RNRRetry, Selective: s.Selective,
		},
	}
	for _, attr := range steps {
		if err := e.QP.Modify(attr, maskFor(s.Type, attr.State)); err != nil {
			e.fail("Modify to %v: %v", attr.State, err)
			return
		}
		if attr.State == qp.Init && !e.Recv.started {
			e.Recv.start()
		}
	}
}

// maskFor is what a transition of a service needs (IBTA table 91).
func maskFor(t qp.Type, s qp.State) qp.AttrMask {
	m := qp.MaskState
	switch {
	case s == qp.Init && t == qp.UD:
		return m | qp.MaskQKey
	case s == qp.Init:
		return m | qp.MaskAccess
	case s == qp.RTS && t == qp.RC:
		return m | qp.MaskSQPSN | qp.MaskMaxRdAtomic | qp.MaskTimeout | qp.MaskRetryCnt | qp.MaskRNRRetry | qp.MaskSelective
	case s == qp.RTS:
		return m | qp.MaskSQPSN
	case t == qp.UD: // to RTR, as below
		return m
	case t == qp.UC:
		return m | qp.MaskPMTU | qp.MaskDestQPN | qp.MaskRQPSN
	}
	return m | qp.MaskPMTU | qp.MaskDestQPN | qp.MaskRQPSN | qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer
}
