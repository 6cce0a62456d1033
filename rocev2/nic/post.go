// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func (p *posts) init() { p.batch, p.spare = new(postBatch), new(postBatch) }

// These bound the memory that a batch keeps after a burst.
const (
	keepPosts = 1 << 16
	keepSGEs  = 1 << 17
	keepData  = 4 << 20 // bytes
)

// take exchanges the batches.
func (p *posts) take() *postBatch {
	p.mu.Lock()
	p.any.Store(false)
	b := p.batch
	p.batch, p.spare = p.spare, nil
	p.mu.Unlock()
	return b
}

func (p *posts) give(b *postBatch) {
	if cap(b.list) > keepPosts || cap(b.sges) > keepSGEs || cap(b.data) > keepData {
		b = new(postBatch)
	}
	clear(b.list) // pointers to queue pairs that may go
	b.list, b.sges, b.data = b.list[:0], b.sges[:0], b.data[:0]
	p.spare = b
}

func (b *postBatch) copySGL(p *post, sgl []verbs.SGE) {
	p.sge, p.sges = len(b.sges), len(sgl)
	b.sges = append(b.sges, sgl...)
}

func (b *postBatch) sgl(p *post) []verbs.SGE { return b.sges[p.sge : p.sge+p.sges] }

// errAHPD: what works together is of one protection domain (IBTA 10.2.3).
var errAHPD = errors.New("nic: the address handle is of another protection domain than the queue pair: make it with that of the queue pair")

// PostSend puts a copy of a work request on the send queue. Any goroutine may call
// it. The error names the rule that it breaks; nothing was queued then.
func (x *QP) PostSend(wr *verbs.SendWR) error {
	x.core.Prefetch()
	p, room := &x.dev().eng.posts, uint32(x.core.Config().MaxSend) // loaded in parallel with the lock, not after it
	p.mu.Lock()
	err := x.posting()
	if err == nil {
		err = x.checkSend(wr)
	}
	if err == nil {
		err = x.checkPlace(wr, room)
	}
	if err == nil && wr.AH != nil {
		err = wr.AH.(*AH).carries(wr)
	}
	if err != nil {
		p.mu.Unlock()
		return err
	}
	x.sendPosted++
	b := p.batch
	b.list = append(b.list, post{qp: x, wr: *wr})
	e := &b.list[len(b.list)-1]
	b.copySGL(e, wr.SGL)
	if wr.Flags&verbs.Inline != 0 {
		e.byte, e.size = len(b.data), len(wr.Data)
		b.data = append(b.data, wr.Data...)
	}
	p.any.Store(true)
	p.mu.Unlock()
	x.dev().eng.driver.Wake()
	return nil
}

// posting reports why nothing can be posted, whatever it is. posts.mu is held, or the owner of the loop calls it.
func (x *QP) posting() error {
	switch {
	case x.dev().eng.posts.closed:
		return x.dev().alive()
	case x.destroyed.Load():
		return engine.ErrQPRemoved
	}
	return nil
}

// checkSend checks a work request, without the transport: any goroutine may call it with posts.mu held.
func (x *QP) checkSend(wr *verbs.SendWR) error {
	c := x.core.Config()
	_, err := verbs.CheckSend(wr, &verbs.SendRules{
		Type: x.core.Type(), OutOfOrder: x.outOfOrder, State: x.core.State(),
		MaxRdAtomic: x.rdAtomic, PMTU: x.pmtu, MaxSGE: c.MaxSendSGE, MaxInline: c.MaxInline,
	})
	return err
}

// checkRecv is checkSend for a receive, with its room in the queue.
func (x *QP) checkRecv(wr *verbs.RecvWR) error {
	c := x.core.Config()
	err := verbs.CheckRecv(wr, verbs.RecvRules{State: x.core.State(), SRQ: c.SRQ != nil, MaxSGE: c.MaxRecvSGE})
	if err == nil && x.recvPosted-x.core.RecvDone() >= uint32(c.MaxRecv) {
		return verbs.ErrQueueFull
	}
	return err
}

// checkPlace checks the room in the send queue, and the address handle of a work request.
func (x *QP) checkPlace(wr *verbs.SendWR, room uint32) error {
	if x.sendPosted-x.core.SendDone() >= room {
		return verbs.ErrQueueFull
	}
	if wr.AH != nil {
		a, ok := wr.AH.(*AH)
		if !ok || a.dev != x.dev() || a.gone.Load() {
			return errors.New("nic: the address handle is none of this device, or was destroyed")
		}
		if a.pd != x.pd {
			return errAHPD
		}
	}
	return nil
}

// PMTU returns the path's PMTU in bytes: the longest datagram. 0: there is no path at present.
func (a *AH) PMTU() int { return a.address.Path.Current().PMTU.Bytes() }

// carries refuses a message that is longer than the path's PMTU: a datagram is one
// packet.
func (a *AH) carries(wr *verbs.SendWR) error {
	n := uint64(len(wr.Data))
	for i := range wr.SGL {
		n += uint64(wr.SGL[i].Len)
	}
	if to := a.address.Path.Current(); to.Exceeds(n) {
		return fmt.Errorf("%w: %d bytes, and the path to %s with its MTU of %d carries datagrams of %d", verbs.ErrTooLong, n, to.Dst, to.MTU, to.PMTU.Bytes())
	}
	return nil
}

// PostRecv puts a copy of a work request on the receive queue.
func (x *QP) PostRecv(wr *verbs.RecvWR) error {
	p := &x.dev().eng.posts
	p.mu.Lock()
	err := x.posting()
	if err == nil {
		err = x.checkRecv(wr)
	}
	if err != nil {
		p.mu.Unlock()
		return err
	}
	x.recvPosted++
	p.addRecv(post{qp: x, recv: true}, wr)
	p.mu.Unlock()
	x.dev().eng.driver.Wake()
	return nil
}

func (p *posts) addRecv(e post, wr *verbs.RecvWR) {
	e.wr.ID = wr.ID
	p.batch.copySGL(&e, wr.SGL)
	p.batch.list = append(p.batch.list, e)
	p.any.Store(true)
}

// takePosts hands the work requests to their queue pairs.
func (e *runner) takePosts() int {
	if !e.posts.any.Load() {
		return 0
	}
	b := e.posts.take()
	for i := range b.list {
		p := &b.list[i]
		switch {
		case p.srq != nil:
			p.srq.core.Recv(&verbs.RecvWR{ID: p.wr.ID, SGL: b.sgl(p)})
		case p.qp.core.Removed():
		case p.recv:
			e.postRecv(p, b.sgl(p))
		default:
			e.postSend(p, b)
		}
	}
	n := len(b.list)
	e.posts.give(b)
	return n
}

func (e *runner) postSend(p *post, b *postBatch) {
	wr := &p.wr
	wr.SGL, wr.Data = b.sgl(p), b.data[p.byte:p.byte+p.size]
	if e.core.Send(&p.qp.core, wr) != nil { // the state changed after PostSend had looked: to RESET, which forgets
		e.core.LoseSend(&p.qp.core)
	}
}

func (e *runner) postRecv(p *post, sgl []verbs.SGE) {
	if e.core.Recv(&p.qp.core, &verbs.RecvWR{ID: p.wr.ID, SGL: sgl}) != nil {
		e.core.LoseRecv(&p.qp.core)
	}
}
