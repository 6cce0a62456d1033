// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"sync"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// SRQ is a shared receive queue of a card: an element of block qp.
type SRQ struct {
	d    *Device
	pd   *PD
	num  uint64
	uses int // queue pairs

	lock sync.Mutex // guards what follows
	rq   ring
	gone bool
}

// CreateSRQ implements verbs.PD.
func (p *PD) CreateSRQ(depth, maxSGE int) (verbs.SRQ, error) {
	if err := p.d.err(); err != nil {
		return nil, err
	}
	s, err := p.newSRQ(depth, maxSGE)
	if err != nil {
		return nil, err
	}
	if err := p.d.add(s, &p.uses); err != nil {
		return nil, firstOf(err, s.end())
	}
	register(p.d, p.d.srqs, s.Number(), s)
	return s, nil
}

// use calls do, if the queue exists.
func (s *SRQ) use(do func() error) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.gone {
		return fmt.Errorf("card: the shared receive queue %w", verbs.ErrDestroyed)
	}
	if err := s.d.err(); err != nil {
		return err
	}
	return do()
}

// PostRecv implements verbs.SRQ.
func (s *SRQ) PostRecv(wr *verbs.RecvWR) error {
	return s.use(func() error { return s.rq.postRecv(s.d, s.num, wr) })
}

// SetLimit implements verbs.SRQ.
func (s *SRQ) SetLimit(n int) error { return s.use(func() error { return s.setLimit(n) }) }

// Destroy implements verbs.SRQ.
func (s *SRQ) Destroy() error {
	if err := s.d.remove(s, "shared receive queue", &s.uses); err != nil {
		return err
	}
	s.d.release(&s.pd.uses)
	return s.close()
}

func (s *SRQ) order() int { return orderSRQ }

func (s *SRQ) close() error {
	unregister(s.d, s.d.srqs, s.Number())
	s.lock.Lock()
	defer s.lock.Unlock()
	s.gone = true
	return s.end()
}

// newSRQ makes a shared receive queue for depth work requests of up to maxSGE elements.
func (p *PD) newSRQ(depth, maxSGE int) (*SRQ, error) {
	d := p.d
	if depth < 1 || depth > 1<<maxLog2 || maxSGE < 1 || maxSGE > MaxRecvSGE {
		return nil, fmt.Errorf("card: a shared receive queue of %d work requests with %d elements: use up to %d and %d", depth, maxSGE, 1<<maxLog2, MaxRecvSGE)
	}
	s := &SRQ{d: d, pd: p}
	var err error
	if s.rq, err = newRing(d, log2(depth), log2(wqe.WqeRecvBytes+maxSGE*wqe.SgeBytes)); err != nil {
		return nil, err
	}
	if s.num, err = d.take(&d.free.qps, 1, 1); err != nil {
		s.rq.free(d)
		return nil, err
	}
	const typeSRQ = 4
	e := s.context()
	e.SetModify(command(verbs.StateReset, 0)) // whatever was there before
	e.SetConfig(regs.QpConfig(0).WithQpType(typeSRQ).WithQpPage(uint32(d.config.Page)))
	e.SetDomain(regs.QpDomain(0).WithQpPd(p.num))
	e.SetRings(regs.QpRings(0).WithRqLog2(s.rq.log2).WithRqEntryLog2(s.rq.entryLog2))
	e.SetRqBase(regs.QpRqBase(0).WithRqAddress(s.rq.base))
	e.SetEvents(^regs.QpEvents(0))
	return s, s.setLimit(0)
}

// Number is the element of block qp.
func (s *SRQ) Number() uint32 { return uint32(s.num) }

func (s *SRQ) context() regs.Qp { return regs.QpOf(s.d.card, int(s.num)) }

func (s *SRQ) modify(to verbs.State) error {
	s.context().SetModify(command(to, 0))
	refused := s.context().Status().Refused()
	if err := s.d.card.Err(); err != nil {
		return err
	}
	if refused {
		return fmt.Errorf("card: shared receive queue %d to %s: %w", s.num, to, errRefused)
	}
	return nil
}

// setLimit requests one event limit_reached, for when fewer than n work requests are left.
func (s *SRQ) setLimit(n int) error {
	if n < 0 || n >= 1<<16 {
		return fmt.Errorf("card: a limit of %d work requests: use 0 to %d", n, 1<<16-1)
	}
	s.context().SetShared(regs.QpShared(0).WithSrqLimit(uint32(n)))
	return s.modify(verbs.StateInit)
}

// Events reads and clears what has happened to the queue. A device of Open does so too, and sends
// what verbs.Event has.
func (s *SRQ) Events() regs.QpEvents {
	e := s.context().Events()
	s.context().SetEvents(e)
	return e
}

// end ends the queue of the card, if no queue pair uses it any more.
func (s *SRQ) end() error {
	if err := s.modify(verbs.StateReset); err != nil {
		return fmt.Errorf("%w: %w by queue pairs?", err, verbs.ErrBusy)
	}
	s.d.give(&s.d.free.qps, s.num, 1)
	s.rq.free(s.d)
	return nil
}
