// SPDX-License-Identifier: Apache-2.0

package verbsdev

import (
	"fmt"
	"sync"

	"github.com/softroce/softroce-xdp/hwoffload/queue"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// SRQ is a shared receive queue of a card.
type SRQ struct {
	pd   *PD
	q    *queue.SRQ
	uses int // queue pairs

	lock sync.Mutex // one user of q at a time
	gone bool
}

// CreateSRQ implements verbs.PD.
func (p *PD) CreateSRQ(depth, maxSGE int) (verbs.SRQ, error) {
	if err := p.d.err(); err != nil {
		return nil, err
	}
	q, err := p.d.q.CreateSRQ(p.num, depth, maxSGE)
	if err != nil {
		return nil, err
	}
	s := &SRQ{pd: p, q: q}
	if err := p.d.add(s, &p.uses); err != nil {
		return nil, firstOf(err, q.Destroy())
	}
	register(p.d, p.d.srqs, q.Number(), s)
	return s, nil
}

// use calls do, if the queue exists.
func (s *SRQ) use(do func() error) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.gone {
		return fmt.Errorf("card: the shared receive queue %w", verbs.ErrDestroyed)
	}
	if err := s.pd.d.err(); err != nil {
		return err
	}
	return do()
}

// PostRecv implements verbs.SRQ.
func (s *SRQ) PostRecv(wr *verbs.RecvWR) error {
	return s.use(func() error { return s.q.PostRecv(wr) })
}

// SetLimit implements verbs.SRQ.
func (s *SRQ) SetLimit(n int) error { return s.use(func() error { return s.q.SetLimit(n) }) }

// Destroy implements verbs.SRQ.
func (s *SRQ) Destroy() error {
	if err := s.pd.d.remove(s, "shared receive queue", &s.uses); err != nil {
		return err
	}
	s.pd.d.release(&s.pd.uses)
	return s.close()
}

func (s *SRQ) order() int { return orderSRQ }

func (s *SRQ) close() error {
	unregister(s.pd.d, s.pd.d.srqs, s.q.Number())
	s.lock.Lock()
	defer s.lock.Unlock()
	s.gone = true
	return s.q.Destroy()
}
