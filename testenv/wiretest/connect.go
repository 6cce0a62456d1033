// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Settings are what two endpoints agree on, with the limits of their queues.
type Settings struct {
	Type      verbs.QPType
	PMTU      rocev2.PMTU
	Selective bool
	Start     [2]uint32 // first PSN of each direction

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
func NewEndpoint(n *Node, pd uint32, s *Settings, recv *Supply) *Endpoint {
	e := &Endpoint{Node: n, maxSend: s.MaxSend}
	cfg := engine.QPConfig{Config: qp.Config{
		Type: s.Type, PD: pd, SendCQ: sendQueue{e}, RecvCQ: recvQueue{e},
		MaxSend: s.MaxSend, MaxRecv: s.Receives, MaxSendSGE: maxSGE, MaxRecvSGE: maxSGE, MaxInline: maxInline,
		AckPackets: s.AckPackets,
	}}
	if recv != nil {
		cfg.Shared = &recv.SRQ
		e.Recv = recv.Receives
	}
	e.QP = n.Create(cfg)
	e.Name = fmt.Sprintf("%s/QP%d", n.Name, e.QP.QPN())
	if recv == nil {
		e.Recv = newReceives(n, pd, s.Receives, maxMessage+verbs.GRHLen)
		e.Recv.Delay = s.RecvDelay
		e.Recv.post = e.QP.PostRecv
	}
	e.makeMemory(pd)
	n.endpoints = append(n.endpoints, e)
	return e
}

// Connect takes the queue pairs of a and b through the states to RTS.
func Connect(a, b *Endpoint, s *Settings) {
	a.Peer, b.Peer = b, a
	a.Up(b.Node, b.QP.QPN(), s.Start[0], s.Start[1], s)
	b.Up(a.Node, a.QP.QPN(), s.Start[1], s.Start[0], s)
}

// Up takes the queue pair to RTS and posts its receives. peer and number are those of the queue pair that it is
// connected with; nil and 0: it is of UD. sent and received are the first PSNs of both directions.
func (e *Endpoint) Up(peer *Node, number, sent, received uint32, s *Settings) {
	e.QP.To(peer)
	e.Node.Selective = s.Selective
	attr := verbs.Attr{
		PMTU: s.PMTU, Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic,
		MaxRdAtomic: s.RdAtomic, MaxDestRdAtomic: s.RdAtomic, MinRNRTimer: s.MinRNRTimer,
		Timeout: s.Timeout, RetryCnt: s.RetryCnt, RNRRetry: s.RNRRetry,
	}
	local, remote := verbs.Endpoint{PSN: rocev2.PSN(sent), QKey: qKey}, verbs.Endpoint{QPN: number, PSN: rocev2.PSN(received)}
	err := verbs.ToInit(e.QP, local, attr)
	if err == nil && !e.Recv.started {
		e.Recv.start()
	}
	if err == nil {
		err = verbs.Connect(e.QP, local, remote, attr)
	}
	if err != nil {
		e.fail("%v", err)
	}
}

// expected returns the PSN that the queue pair expects next.
func (e *Endpoint) expected() rocev2.PSN {
	a, err := e.QP.Attr()
	if err != nil {
		e.fail("%v", err)
	}
	return a.RQPSN
}
