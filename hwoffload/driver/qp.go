// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"fmt"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// QP is a queue pair of a card.
type QP struct {
	d          *Device
	pd         *PD
	num        uint64
	init       verbs.QPInit // initial attributes with the defaults
	send, recv *CQ
	srq        *SRQ   // shared receive queue, or nil
	uses       []*int // counts of the objects that it uses

	lock   sync.Mutex // guards what follows
	sq, rq ring
	table  ring            // UD: the address handles of the card
	used   []bool          // entries of table
	rules  verbs.SendRules // work requests that are taken, whatever the attributes
	attr   verbs.Attr      // attributes that Modify has set
	ahs    map[*AH]int     // entries of table
	gone   bool
}

var _ verbs.QP = (*QP)(nil)

var errForeign = errors.New("card: the completion queues and the SRQ of a queue pair must be of the same device")

var errForeignSRQ = errors.New("card: the shared receive queue is of another protection domain than the queue pair: make it with that of the queue pair")

// maxHandles is how many address handles a UD queue pair uses at most.
const maxHandles = 1024

// CreateQP implements verbs.PD.
func (p *PD) CreateQP(init verbs.QPInit) (verbs.QP, error) {
	if err := p.d.err(); err != nil {
		return nil, err
	}
	send, ok1 := init.SendCQ.(*CQ)
	recv, ok2 := init.RecvCQ.(*CQ)
	if !ok1 || !ok2 || send.d != p.d || recv.d != p.d {
		return nil, errForeign
	}
	if init.OutOfOrder || init.Payload != 0 {
		return nil, errors.New("the card has no out-of-order mode: leave OutOfOrder and Payload out")
	}
	q := &QP{d: p.d, pd: p, init: init, send: send, recv: recv, uses: []*int{&p.uses, &send.uses, &recv.uses}, ahs: map[*AH]int{}}
	q.rules = verbs.SendRules{Type: init.Type, MaxSGE: max(1, init.MaxSendSGE), MaxInline: init.MaxInline}
	if init.SRQ != nil {
		s, ok := init.SRQ.(*SRQ)
		if !ok || s.pd.d != p.d {
			return nil, errForeign
		}
		if s.pd != p {
			return nil, errForeignSRQ
		}
		q.srq = s
		q.uses = append(q.uses, &s.uses)
	}
	if err := q.create(); err != nil {
		return nil, err
	}
	if err := p.d.add(q, q.uses...); err != nil {
		return nil, firstOf(err, q.end())
	}
	register(p.d, p.d.qps, q.QPN(), q)
	return q, nil
}

// QPN implements verbs.QP.
func (q *QP) QPN() uint32 { return uint32(q.num) }

// Type implements verbs.QP.
func (q *QP) Type() verbs.QPType { return q.init.Type }

// State implements verbs.QP.
func (q *QP) State() verbs.State {
	q.lock.Lock()
	defer q.lock.Unlock()
	if q.err() != nil {
		return verbs.StateReset
	}
	return q.state()
}

func (q *QP) err() error {
	if q.gone {
		return fmt.Errorf("card: the queue pair %w", verbs.ErrDestroyed)
	}
	return q.d.err()
}

// Modify implements verbs.QP.
func (q *QP) Modify(a verbs.Attr, mask verbs.AttrMask) error {
	q.lock.Lock()
	defer q.lock.Unlock()
	if err := q.err(); err != nil {
		return err
	}
	if mask&verbs.MaskAV != 0 {
		if err := q.d.source(&a.AV); err != nil {
			return err
		}
	}
	if err := q.modify(a, mask); err != nil {
		return err
	}
	set(&q.attr, &a, mask)
	if mask&verbs.MaskState != 0 && a.State == verbs.StateReset {
		q.attr = verbs.Attr{}
	}
	return nil
}

// set copies the attributes of a mask.
func set(to, from *verbs.Attr, mask verbs.AttrMask) {
	for bit, copy := range map[verbs.AttrMask]func(){
		verbs.MaskState: func() { to.State = from.State }, verbs.MaskPMTU: func() { to.PMTU = from.PMTU },
		verbs.MaskDestQPN: func() { to.DestQPN = from.DestQPN }, verbs.MaskPKey: func() { to.PKey = from.PKey },
		verbs.MaskQKey: func() { to.QKey = from.QKey }, verbs.MaskSQPSN: func() { to.SQPSN = from.SQPSN },
		verbs.MaskRQPSN: func() { to.RQPSN = from.RQPSN }, verbs.MaskAccess: func() { to.Access = from.Access },
		verbs.MaskMaxRdAtomic:     func() { to.MaxRdAtomic = from.MaxRdAtomic },
		verbs.MaskMaxDestRdAtomic: func() { to.MaxDestRdAtomic = from.MaxDestRdAtomic },
		verbs.MaskMinRNRTimer:     func() { to.MinRNRTimer = from.MinRNRTimer },
		verbs.MaskTimeout:         func() { to.Timeout = from.Timeout }, verbs.MaskRetryCnt: func() { to.RetryCnt = from.RetryCnt },
		verbs.MaskRNRRetry: func() { to.RNRRetry = from.RNRRetry }, verbs.MaskSelective: func() { to.Selective = from.Selective },
		verbs.MaskAV: func() { to.AV = from.AV },
	} {
		if mask&bit != 0 {
			copy()
		}
	}
}

// Query implements verbs.QP.
func (q *QP) Query() (verbs.Attr, error) {
	q.lock.Lock()
	defer q.lock.Unlock()
	if err := q.err(); err != nil {
		return verbs.Attr{}, err
	}
	a := q.attr
	a.State = q.state()
	return a, q.d.card.Err()
}

// PostSend implements verbs.QP.
func (q *QP) PostSend(wr *verbs.SendWR) error {
	q.lock.Lock()
	defer q.lock.Unlock()
	if err := q.err(); err != nil {
		return err
	}
	// The card may have left RTS since: it completes the work request then.
	rules := q.rules
	rules.State, rules.PMTU, rules.MaxRdAtomic = q.attr.State, q.attr.PMTU, q.attr.MaxRdAtomic
	if _, err := verbs.CheckSend(wr, &rules); err != nil {
		return err
	}
	handle := 0
	if q.init.Type == verbs.UD {
		var err error
		if handle, err = q.handle(wr.AH); err != nil {
			return err
		}
	}
	return q.post(wr, uint32(handle))
}

// PostRecv implements verbs.QP.
func (q *QP) PostRecv(wr *verbs.RecvWR) error {
	q.lock.Lock()
	defer q.lock.Unlock()
	if err := q.err(); err != nil {
		return err
	}
	if q.attr.State == verbs.StateReset {
		return verbs.ErrRecvState
	}
	if q.srq != nil {
		return verbs.ErrSRQ
	}
	return q.rq.postRecv(q.d, q.num, wr)
}

// Destroy implements verbs.QP.
func (q *QP) Destroy() error {
	if err := q.d.remove(q, "queue pair", nil); err != nil {
		return err
	}
	err := q.close()
	q.d.release(q.uses...)
	return err
}

func (q *QP) order() int { return orderQP }

func (q *QP) close() error {
	unregister(q.d, q.d.qps, q.QPN())
	q.lock.Lock()
	defer q.lock.Unlock()
	q.gone = true
	return q.end()
}
