// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// reliable sends each message as RC WRITE with immediate.
type reliable struct {
	nodes [2]*wiretest.Node
	q     [2]*wiretest.QP
	from  *wiretest.Region
	to    *wiretest.Region
	free  int // entries of the send queue
	bad   string

	selective bool
}

const sendQueue = 1024

// reorderPackets is how many packets behind gaps a node may buffer: window from its only peer, and a quarter that is
// kept for others.
const reorderPackets = window * 4 / 3

// queue calls a function for each completion.
type queue func(verbs.Completion)

// Complete implements qp.CompletionQueue.
func (q queue) Complete(c verbs.Completion) { q(c) }

// newReliable returns the maker of RC with SACK, or without.
func newReliable(selective bool) maker {
	return func(w *wiretest.Wire, f wiretest.Faults, on events) transport {
		t := &reliable{free: sendQueue, selective: selective}
		for i := range t.nodes {
			t.nodes[i] = w.NewNode([]string{"A", "B"}[i], 1+i, false, portRate, reorderPackets)
			t.nodes[i].Selective = selective
		}
		received := func(c verbs.Completion) {
			t.check(c)
			on.arrived(int(c.Imm))
			t.receive()
		}
		sent := func(c verbs.Completion) {
			t.check(c)
			t.free++
			on.completed(int(c.WRID))
		}
		for i, n := range t.nodes {
			t.q[i] = n.Create(engine.QPConfig{Config: qp.Config{
				Type: verbs.RC, MaxSend: sendQueue, MaxSendSGE: 1, MaxRecv: sendQueue, MaxRecvSGE: 1,
				SendCQ: queue(sent), RecvCQ: queue(received),
			}})
			p := n.PathTo(t.nodes[1-i])
			p.Delay, p.Faults = delay, f
			t.q[i].To(t.nodes[1-i])
		}
		for i := range t.q {
			t.up(i)
		}
		for range sendQueue {
			t.receive()
		}
		t.from = t.nodes[0].Mem.Register(0, messageLen, 0)
		t.to = t.nodes[1].Mem.Register(0, messageLen, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
		return t
	}
}

func (t *reliable) up(i int) {
	const timeout, retries = 8, 7 // 1 ms
	attr := verbs.Attr{PMTU: rocev2.PMTU1024, Access: verbs.AccessRemoteWrite, Timeout: timeout, RetryCnt: retries, RNRRetry: 7, MinRNRTimer: 1}
	err := verbs.ToInit(t.q[i], verbs.Endpoint{}, attr)
	if err == nil {
		err = verbs.Connect(t.q[i], verbs.Endpoint{}, verbs.Endpoint{QPN: t.q[1-i].QPN()}, attr)
	}
	if err != nil {
		t.bad = err.Error()
	}
}

func (t *reliable) receive() {
	if err := t.q[1].PostRecv(&verbs.RecvWR{}); err != nil {
		t.bad = err.Error()
	}
}

func (t *reliable) check(c verbs.Completion) {
	if c.Status != verbs.StatusSuccess && t.bad == "" {
		t.bad = c.Status.String()
	}
}

func (t *reliable) post(i int) bool {
	if t.free == 0 {
		return false
	}
	t.free--
	err := t.q[0].PostSend(&verbs.SendWR{
		ID: uint64(i), Op: verbs.OpWriteImm, Flags: verbs.Signaled, Imm: uint32(i), RemoteAddr: t.to.Addr, RKey: t.to.Key,
		SGL: []verbs.SGE{{Addr: t.from.Addr, Len: messageLen, LKey: t.from.Key}},
	})
	if err != nil {
		t.bad = err.Error()
	}
	return err == nil
}

func (t *reliable) serve() {
	for _, n := range t.nodes {
		n.Serve()
	}
}

func (t *reliable) sentPerDelivered() float64 {
	c := &t.nodes[0].Count
	return float64(c.SentPackets) / float64(c.SentPackets-c.SentAgain)
}

func (t *reliable) failure() string { return t.bad }

// negotiated requires SACK under loss, or none without it: else the figures are those of the other contender.
func (t *reliable) negotiated() string {
	const few = 10 // packets that may all be the last of their messages, behind which no gap shows
	lost, sent := t.nodes[0].PathTo(t.nodes[1]).Lost, t.nodes[1].Count.SACKSent
	if t.selective && lost >= few && sent == 0 || !t.selective && sent != 0 {
		return fmt.Sprintf("SACK wanted: %v, but %d were sent with %d packets lost", t.selective, sent, lost)
	}
	return ""
}
