// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// QP is a queue pair of a node's core, with the calls of an application. Node.Serve must follow them.
type QP struct {
	*engine.QP
	node *Node
	peer *Node // RC, UC
}

// Create adds a queue pair to the node. Memory and counters are those of the node.
func (n *Node) Create(c engine.QPConfig) *QP {
	c.Memory, c.Count = n.Mem, &n.Count
	q := &QP{QP: new(engine.QP), node: n}
	if err := n.core.AddQP(q.QP, c); err != nil {
		n.w.Failf("%s: %v", n.Name, err)
	}
	return q
}

// To sets the node of the peer, before RTR.
func (q *QP) To(peer *Node) { q.peer = peer }

// Modify implements verbs.Modifier.
func (q *QP) Modify(a verbs.Attr, mask verbs.AttrMask) error {
	var path *engine.Path
	if q.peer != nil && mask&verbs.MaskState != 0 && a.State == verbs.StateRTR {
		path = q.node.route(q.peer)
	}
	_, err := q.node.core.Modify(q.QP, &a, mask, path)
	return err
}

// PostSend puts a work request on the send queue.
func (q *QP) PostSend(wr *verbs.SendWR) error { return q.node.core.Send(q.QP, wr) }

// PostRecv puts a work request on the receive queue.
func (q *QP) PostRecv(wr *verbs.RecvWR) error { return q.node.core.Recv(q.QP, wr) }

// completed shows the state of the queue pair before an application sees a completion with an error.
func (n *Node) completed(c *verbs.Completion) {
	n.completions++
	if c.Status != verbs.StatusSuccess {
		n.core.ShowFailure(c.QPN)
	}
}

// handle is the address handle of a node.
type handle struct {
	address engine.Address
}

// Address implements engine.AddressHandle.
func (h *handle) Address() *engine.Address { return &h.address }

// Destroy implements verbs.AH.
func (*handle) Destroy() error { return nil }

// handleTo returns the address handle that leads to another node.
func (n *Node) handleTo(to *Node) *handle {
	h := n.handles[to.Addr]
	if h == nil {
		h = &handle{engine.Address{Path: n.route(to)}}
		n.core.Open(&h.address)
		n.handles[to.Addr] = h
	}
	return h
}
