// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// SRQ is a shared receive queue. Done may be called by any goroutine; all else belongs to the goroutine of the core.
type SRQ struct {
	q           *qp.SRQ
	taken, lost uint32
	done        atomic.Uint32
	view        QueueView // nil unless somebody is shown the progress
}

// Init makes an empty queue of a zero SRQ.
func (s *SRQ) Init(c qp.SRQConfig) { s.q = qp.NewSRQ(c) }

// Recv puts a receive on the queue. It is lost if the queue is full.
func (s *SRQ) Recv(wr *verbs.RecvWR) {
	if s.Post(wr) != nil {
		s.lost++
	}
	s.publish()
}

// Post puts a receive on the queue. After an error it is not there.
func (s *SRQ) Post(wr *verbs.RecvWR) error {
	if err := s.q.PostRecv(wr); err != nil {
		return err
	}
	s.taken++
	return nil
}

// Len returns the number of receives on the queue.
func (s *SRQ) Len() int { return s.q.Len() }

// Refuse takes a receive that the queue cannot take. Without a completion queue that it belongs to, it is left out.
func (s *SRQ) Refuse() {
	s.lost++
	s.publish()
}

// SetLimit is verbs.SRQ.SetLimit.
func (s *SRQ) SetLimit(n int) { s.q.SetLimit(n) }

// Limit returns the limit of SetLimit, 0 if there is none or the queue has reported it.
func (s *SRQ) Limit() int { return s.q.Limit() }

// SetView sets where the progress is shown.
func (s *SRQ) SetView(v QueueView) {
	s.view = v
	s.publish()
}

// Done returns how many receives have left the queue, modulo 2^32, as last shown.
func (s *SRQ) Done() uint32 { return s.done.Load() }

// publish shows the application how much room there is.
func (s *SRQ) publish() {
	s.done.Store(s.taken + s.lost - uint32(s.q.Len()))
	if s.view != nil {
		s.view.Show(verbs.StateRTS, 0, s.done.Load())
	}
}
