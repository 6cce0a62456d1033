// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// SRQConfig is fixed for the life of an SRQ.
type SRQConfig struct {
	PD     uint32                // protection domain of the buffers
	Max    int                   // largest number of work requests
	MaxSGE int                   // largest number of elements of one
	Notify func(verbs.EventType) // callback of EventSRQLimit, or nil; called in the engine's thread
}

// SRQ is a shared receive queue (IBTA 10.2.9): queue pairs of one thread take their
// receives from it in the order in which messages begin.
type SRQ struct {
	cfg   SRQConfig
	ring  recvRing
	limit uint32
}

// NewSRQ makes an empty SRQ without a limit.
func NewSRQ(cfg SRQConfig) *SRQ {
	return &SRQ{cfg: cfg, ring: newRecvRing(cfg.Max, cfg.MaxSGE)}
}

// PostRecv puts a work request on the queue.
func (s *SRQ) PostRecv(wr *verbs.RecvWR) error { return s.ring.push(wr) }

// Len returns the number of work requests on the queue.
func (s *SRQ) Len() int { return int(s.ring.n) }

// SetLimit arms EventSRQLimit: it is reported once, when fewer than n work requests are
// left after one was taken; 0 disarms it (IBTA 10.2.9).
func (s *SRQ) SetLimit(n int) { s.limit = uint32(max(n, 0)) }

// Limit returns the limit of SetLimit, 0 if it was reported.
func (s *SRQ) Limit() int { return int(s.limit) }

func (s *SRQ) pop(b *recvBuffer) bool {
	if !s.ring.pop(b) {
		return false
	}
	if s.ring.n < s.limit {
		s.limit = 0
		if s.cfg.Notify != nil {
			s.cfg.Notify(verbs.EventSRQLimit)
		}
	}
	return true
}
