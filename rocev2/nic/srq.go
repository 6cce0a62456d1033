// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// CreateSRQ makes a shared receive queue for up to depth work requests of up to
// maxSGE elements.
func (p *PD) CreateSRQ(depth, maxSGE int) (verbs.SRQ, error) {
	d := p.dev
	if depth < 1 || depth > MaxWR || maxSGE < 1 || maxSGE > MaxSGE {
		return nil, fmt.Errorf("nic: a shared receive queue of %d with %d elements each; at most %d and %d", depth, maxSGE, MaxWR, MaxSGE)
	}
	if err := p.acquire(); err != nil {
		return nil, err
	}
	s := &SRQ{dev: d, pd: p}
	s.conf = qp.SRQConfig{PD: p.num, Max: depth, MaxSGE: maxSGE, Notify: func(e verbs.EventType) {
		d.event(verbs.Event{Type: e, SRQ: s})
	}}
	s.core.Init(s.conf)
	return s, nil
}

var errSRQDestroyed = fmt.Errorf("nic: the shared receive queue %w", verbs.ErrDestroyed)

// PostRecv puts a copy of a work request on the queue. Any goroutine may call it.
func (s *SRQ) PostRecv(wr *verbs.RecvWR) error {
	p := &s.dev.eng.posts
	p.mu.Lock()
	var err error
	switch {
	case p.closed:
		err = s.dev.alive()
	case s.users.ended():
		err = errSRQDestroyed
	case len(wr.SGL) > s.conf.MaxSGE:
		err = fmt.Errorf("%w: %d of %d", verbs.ErrSGL, len(wr.SGL), s.conf.MaxSGE)
	case s.posted-s.core.Done() >= uint32(s.conf.Max):
		err = verbs.ErrQueueFull
	}
	if err != nil {
		p.mu.Unlock()
		return err
	}
	s.posted++
	p.addRecv(post{srq: s}, wr)
	p.mu.Unlock()
	s.dev.eng.driver.Wake()
	return nil
}

// SetLimit asks for an EventSRQLimit, once, when fewer than n work requests are left: 0, which is none, up to the
// depth of the queue (IBTA 11.2.3.3).
func (s *SRQ) SetLimit(n int) error {
	if n < 0 || n > s.conf.Max {
		return fmt.Errorf("nic: a limit of %d for a shared receive queue of %d: choose 0 to %d", n, s.conf.Max, s.conf.Max)
	}
	return s.dev.do(func() error { s.core.SetLimit(n); return nil })
}

// Limit returns the limit of SetLimit, 0 if there is none or the queue has reported it.
func (s *SRQ) Limit() (n int, err error) {
	err = s.dev.do(func() error { n = s.core.Limit(); return nil })
	return n, err
}

// Destroy ends the queue; work requests on it vanish. It must have no queue pairs.
func (s *SRQ) Destroy() error {
	n, first := s.users.end()
	if n > 0 {
		return fmt.Errorf("nic: shared receive queue: %w: %d queue pairs use it", verbs.ErrBusy, n)
	}
	if first {
		s.dev.mem.ReleasePD(s.pd.num)
	}
	return nil
}
