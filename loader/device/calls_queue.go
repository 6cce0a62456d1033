// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// wireShape is a shape in messages.
func wireShape(s ring.Shape) proto.Shape {
	return proto.Shape{Entries: s.Entries, EntryBytes: s.EntryBytes}
}

// limit refuses what the device does not have.
func limit(what string, v uint32, most int) error {
	if v < 1 || v > uint32(most) {
		return fmt.Errorf("%s is %d; choose 1 to %d", what, v, most)
	}
	return nil
}

func (c *session) createCQ(m *proto.CreateCQ) (_ any, _ []int, err error) {
	if err := limit("the depth of a completion queue", m.Depth, nic.MaxCQ); err != nil {
		return nil, nil, err
	}
	s := ring.ShapeFor(int(m.Depth), wqe.CqeBytes)
	cost := []limits.Use{{Kind: limits.CQs, N: 1}, {Kind: limits.CQEntries, N: uint64(s.Entries)}}
	if err := c.charge(cost...); err != nil {
		return nil, nil, err
	}
	q := &completionQueue{r: c.rings, cost: cost}
	memory, opened, err := c.ringFiles.open(s)
	if err != nil {
		c.account.Release(cost...)
		return nil, nil, err
	}
	q.memory, q.completions = memory, ring.NewCompletions(opened[0], m.Depth)
	q.out = q.completions.NewProducer()
	if q.cq, err = c.s.dev.CreateCQTo(int(m.Depth), q); err != nil {
		c.account.Release(cost...)
		memory.close()
		return nil, nil, err
	}
	h, err := c.added(q)
	if err != nil {
		return nil, nil, err
	}
	c.s.owners.Store(verbs.CQ(q.cq), owner{c, h})
	return &proto.CreateCQReply{Handle: h, Ring: wireShape(s), Offset: memory.offset}, []int{memory.fd()}, nil
}

// resizeCQ gives a completion queue another ring.
func (c *session) resizeCQ(m *proto.ResizeCQ) (_ any, _ []int, err error) {
	q, err := get[*completionQueue](c, m.Handle)
	if err == nil {
		err = limit("the depth of a completion queue", m.Depth, nic.MaxCQ)
	}
	if err != nil {
		return nil, nil, err
	}
	s := ring.ShapeFor(int(m.Depth), wqe.CqeBytes)
	entries := limits.Use{Kind: limits.CQEntries, N: uint64(s.Entries)}
	if err := c.charge(entries); err != nil {
		return nil, nil, err
	}
	memory, opened, err := c.ringFiles.open(s)
	if err != nil {
		c.account.Release(entries)
		return nil, nil, err
	}
	c.socket.costs.call(uint64(s.Entries) / entriesOfCall)
	move, err := q.completions.MoveTo(opened[0], m.Depth)
	if err == nil {
		c.s.dev.InLoop(func() {
			var to *ring.Completions
			if to, err = move.Finish(); err == nil {
				q.completions = to
				q.out.WriteTo(to)
			}
		})
	}
	if err != nil {
		c.account.Release(entries)
		memory.close()
		return nil, nil, err
	}
	entries, q.cost[1] = q.cost[1], entries
	memory, q.memory = q.memory, memory
	c.account.Release(entries)
	memory.close()
	return &proto.CreateCQReply{Handle: m.Handle, Ring: wireShape(s), Offset: q.memory.offset}, []int{q.memory.fd()}, nil
}

func (c *session) destroyCQ(q *completionQueue) error {
	if err := q.cq.Destroy(); err != nil {
		return err
	}
	c.s.owners.Delete(verbs.CQ(q.cq))
	c.s.dev.InLoop(func() { q.ended = true })
	c.account.Release(q.cost...)
	q.memory.close()
	return nil
}

func (c *session) createSRQ(m *proto.CreateSRQ) (_ any, _ []int, err error) {
	pd, err := get[*domain](c, m.PD)
	if err == nil {
		err = limit("the depth of a shared receive queue", m.Depth, nic.MaxWR)
	}
	if err == nil {
		err = limit("the number of elements of a receive", m.SGE, nic.MaxSGE)
	}
	if err != nil {
		return nil, nil, err
	}
	s := ring.ShapeFor(int(m.Depth), wqe.RecvBytes(int(m.SGE)))
	q := &sharedQueue{cost: []limits.Use{{Kind: limits.SRQs, N: 1}, {Kind: limits.WRs, N: uint64(s.Entries)}}}
	if err := c.charge(q.cost...); err != nil {
		return nil, nil, err
	}
	memory, opened, err := c.ringFiles.open(s)
	if err != nil {
		c.account.Release(q.cost...)
		return nil, nil, err
	}
	q.memory, q.recv = memory, newQueue(c.rings, opened[0], s)
	q.recv.srq, q.recv.recv = q, true
	srq, err := pd.CreateSRQ(int(m.Depth), int(m.SGE))
	if err != nil {
		c.account.Release(q.cost...)
		memory.close()
		return nil, nil, err
	}
	q.srq = srq.(*nic.SRQ)
	q.srq.SetView(q)
	c.s.dev.InLoop(func() { q.number, err = c.rings.number(q.recv) })
	if err != nil {
		q.number = ring.Queues
		return nil, nil, errors.Join(err, c.destroySRQ(q))
	}
	h, err := c.added(q)
	if err != nil {
		return nil, nil, err
	}
	c.s.owners.Store(verbs.SRQ(q.srq), owner{c, h})
	return &proto.CreateSRQReply{Handle: h, Queue: q.number, Ring: wireShape(s), Offset: memory.offset}, []int{memory.fd()}, nil
}

func (c *session) destroySRQ(q *sharedQueue) error {
	if err := q.srq.Destroy(); err != nil {
		return err
	}
	c.s.owners.Delete(verbs.SRQ(q.srq))
	c.s.dev.InLoop(func() {
		q.ended, q.recv.ended = true, true
		c.rings.unwatch(q.recv)
		c.rings.free(q.number, q.recv)
	})
	c.account.Release(q.cost...)
	q.memory.close()
	return nil
}

func (c *session) setLimit(m *proto.SRQLimit) error {
	q, err := get[*sharedQueue](c, m.Handle)
	if err != nil {
		return err
	}
	c.settle()
	return q.srq.SetLimit(int(m.Limit))
}

func (c *session) querySRQ(m *proto.Handle) (*proto.SRQLimit, error) {
	q, err := get[*sharedQueue](c, m.Handle)
	if err != nil {
		return nil, err
	}
	n, err := q.srq.Limit()
	return &proto.SRQLimit{Handle: m.Handle, Limit: int32(n)}, err
}

// initOf checks the numbers of a queue pair, and finds the objects that it uses.
func (c *session) initOf(m *proto.CreateQP) (pd *domain, init verbs.QPInit, err error) {
	if pd, err = get[*domain](c, m.PD); err != nil {
		return nil, init, err
	}
	send, err := get[*completionQueue](c, m.SendCQ)
	if err != nil {
		return nil, init, err
	}
	recv, err := get[*completionQueue](c, m.RecvCQ)
	if err != nil {
		return nil, init, err
	}
	for _, err := range []error{
		limit("MaxSend", m.MaxSend, nic.MaxWR), limit("MaxRecv", m.MaxRecv, nic.MaxWR), limit("MaxSendSGE", m.MaxSendSGE, nic.MaxSGE),
		limit("MaxRecvSGE", m.MaxRecvSGE, nic.MaxSGE), limit("MaxInline+1", m.MaxInline+1, nic.MaxInline+1),
	} {
		if err != nil {
			return nil, init, err
		}
	}
	init = verbs.QPInit{
		Type: verbs.QPType(m.Type), SendCQ: send.cq, RecvCQ: recv.cq, MaxSend: int(m.MaxSend), MaxRecv: int(m.MaxRecv),
		MaxSendSGE: int(m.MaxSendSGE), MaxRecvSGE: int(m.MaxRecvSGE), MaxInline: int(m.MaxInline), SignalAll: m.SignalAll != 0,
		OutOfOrder: m.OutOfOrder != 0, Payload: int(m.Payload),
	}
	if m.SRQ != 0 {
		s, err := get[*sharedQueue](c, m.SRQ)
		if err != nil {
			return nil, init, err
		}
		init.SRQ = s.srq
	}
	return pd, init, nil
}

// outOfOrderCost is how many work requests a queue pair in out-of-order mode counts for besides its own: the
// packets that it remembers take as much memory.
const outOfOrderCost = 256

func (c *session) createQP(m *proto.CreateQP) (_ any, _ []int, err error) {
	pd, init, err := c.initOf(m)
	if err != nil {
		return nil, nil, err
	}
	shapes := []ring.Shape{ring.ShapeFor(init.MaxSend, wqe.SendBytes(init.MaxInline, init.MaxSendSGE))}
	if init.SRQ == nil {
		shapes = append(shapes, ring.ShapeFor(init.MaxRecv, wqe.RecvBytes(init.MaxRecvSGE)))
	}
	q := &queuePair{cost: []limits.Use{{Kind: limits.QPs, N: 1}}}
	for _, s := range shapes {
		q.cost = append(q.cost, limits.Use{Kind: limits.WRs, N: uint64(s.Entries)})
	}
	if init.OutOfOrder {
		q.cost = append(q.cost, limits.Use{Kind: limits.WRs, N: outOfOrderCost})
	}
	if err := c.charge(q.cost...); err != nil {
		return nil, nil, err
	}
	var opened []ring.Ring
	if q.memory, opened, err = c.ringFiles.open(shapes...); err != nil {
		c.account.Release(q.cost...)
		return nil, nil, err
	}
	x, err := pd.CreateQP(init)
	if err != nil {
		c.account.Release(q.cost...)
		q.memory.close()
		return nil, nil, err
	}
	q.qp = x.(*nic.QP)
	r := &proto.CreateQPReply{QPN: x.QPN(), Offset: q.memory.offset}
	for i, ring := range opened {
		half := newQueue(c.rings, ring, shapes[i])
		half.qp, half.recv = q, i == 1
		q.halves = append(q.halves, half)
	}
	r.Send = wireShape(shapes[0])
	if len(shapes) > 1 {
		r.Recv = wireShape(shapes[1])
	}
	q.qp.SetView(q)
	c.s.dev.InLoop(func() { err = c.rings.enlist(q) })
	if err != nil {
		return nil, nil, errors.Join(err, c.destroyQP(q))
	}
	if r.SendQueue = q.numbers[0]; len(q.numbers) > 1 {
		r.RecvQueue = q.numbers[1]
	}
	if r.Handle, err = c.added(q); err != nil {
		return nil, nil, err
	}
	c.s.owners.Store(verbs.QP(q.qp), owner{c, r.Handle})
	c.mu.Lock()
	c.qpns[r.QPN] = struct{}{}
	c.mu.Unlock()
	return r, []int{q.memory.fd()}, nil
}

func (c *session) destroyQP(q *queuePair) error {
	c.mu.Lock()
	delete(c.qpns, q.qp.QPN()) // another process may have the number next
	c.mu.Unlock()
	if err := q.qp.Destroy(); err != nil {
		return err
	}
	c.s.owners.Delete(verbs.QP(q.qp))
	c.s.dev.InLoop(func() {
		q.ended = true
		for i, half := range q.halves {
			half.ended = true
			c.rings.unwatch(half)
			if i < len(q.numbers) {
				c.rings.free(q.numbers[i], half)
			}
		}
	})
	c.account.Release(q.cost...)
	q.memory.close()
	return nil
}

// modify sets attributes of a queue pair. What was posted before is settled.
func (c *session) modify(m *proto.ModifyQP) error {
	q, err := get[*queuePair](c, m.Handle)
	if err != nil {
		return err
	}
	if err := c.process.mayUse(m); err != nil {
		return err
	}
	return q.qp.Modify(m.Attr.Verbs(), verbs.AttrMask(m.Mask))
}

// encrypt gives a queue pair its keys.
func (c *session) encrypt(m *proto.EncryptQP) error {
	q, err := get[*queuePair](c, m.Handle)
	if err != nil {
		return err
	}
	if m.MaxBlocks != 0 && m.MaxBlocks < proto.MinBlocks {
		return fmt.Errorf("MaxBlocks is %d: choose at least %d, or 0 for the default", m.MaxBlocks, proto.MinBlocks)
	}
	return q.qp.Encrypt(
		seal.Keys{Suite: seal.Suite(m.Suite), Send: m.Send, Receive: m.Receive},
		seal.Limits{MaxBlocks: m.MaxBlocks, Overlap: m.Overlap},
	)
}

func (c *session) query(m *proto.Handle) (*proto.Attr, error) {
	q, err := get[*queuePair](c, m.Handle)
	if err != nil {
		return nil, err
	}
	a, err := q.qp.Query()
	if err != nil {
		return nil, err
	}
	r := proto.AttrOf(a)
	return &r, nil
}
