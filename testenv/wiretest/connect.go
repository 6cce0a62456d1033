// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Settings are what two endpoints agree on, with the limits of their queues.
type Settings struct {
	Type      verbs.QPType
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
	Hold      int // packets that all queue pairs of a node buffer behind gaps

	AckPackets uint32 // packets per ACK, see qp.Config
}

const qKey = 0x11223344

// NewEndpoint makes an application with a queue pair in RESET on node n. The
// supply of receives is its own if recv is nil.
func NewEndpoint(n *Node, qpn, pd uint32, s *Settings, recv *Supply) *Endpoint {
	e := &Endpoint{Name: fmt.Sprintf("%s/QP%d", n.Name, qpn), Node: n, maxSend: s.MaxSend}
	cfg := qp.Config{
		QPN: qpn, Type: s.Type, PD: pd, Memory: n.Mem,
		SendCQ: sendQueue{e}, RecvCQ: recvQueue{e}, Count: &n.Count,
		Notify:  func(ev verbs.EventType) { e.Events = append(e.Events, ev) },
		Reorder: n.hold(s.Hold), MaxSend: s.MaxSend, MaxRecv: s.Receives, MaxSendSGE: maxSGE, MaxRecvSGE: maxSGE, MaxInline: maxInline,
		AckPackets: s.AckPackets,
	}
	if recv != nil {
		cfg.SRQ = recv.SRQ
		e.Recv = recv.Receives
	}
	e.QP = qp.New(cfg)
	if recv == nil {
		e.Recv = newReceives(n, pd, s.Receives, maxMessage+verbs.GRHLen)
		e.Recv.Delay = s.RecvDelay
		e.Recv.post = e.QP.PostRecv
	}
	e.makeMemory(pd)
	n.endpoints = append(n.endpoints, e)
	n.Tick = n.work
	return e
}

// hold is the node's pool, made when first asked for.
func (n *Node) hold(packets int) *qp.ReorderPool {
	if n.reorder == nil {
		n.reorder = qp.NewReorderPool(packets)
	}
	return n.reorder
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
	attr := verbs.Attr{
		PMTU: s.PMTU, Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic,
		MaxRdAtomic: s.RdAtomic, MaxDestRdAtomic: s.RdAtomic, MinRNRTimer: s.MinRNRTimer,
		Timeout: s.Timeout, RetryCnt: s.RetryCnt, RNRRetry: s.RNRRetry,
	}
	local, remote := verbs.Endpoint{PSN: sqPSN, QKey: qKey}, verbs.Endpoint{QPN: peer, PSN: rqPSN}
	err := verbs.ToInit(e.QP, local, attr)
	if err == nil && !e.Recv.started {
		e.Recv.start()
	}
	if err == nil {
		err = verbs.Connect(e.QP, local, remote, attr)
	}
	if err == nil && s.Type == verbs.RC {
		err = e.QP.Modify(verbs.Attr{Selective: s.Selective}, verbs.MaskSelective)
	}
	if err != nil {
		e.fail("%v", err)
	}
}
