// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// SRQ is a shared receive queue. It implements verbs.SRQ.
type SRQ struct {
	d             *Device
	handle, queue uint32
	maxSGE        int

	mu     sync.Mutex
	memory []byte // nil from Destroy on
	recv   *ring.Producer
}

var _ verbs.SRQ = (*SRQ)(nil)

// CreateSRQ implements verbs.PD.
func (p *PD) CreateSRQ(depth, maxSGE int) (verbs.SRQ, error) {
	d := p.d
	if depth < 1 || depth > d.limits.WR || maxSGE < 1 || maxSGE > d.limits.SGE {
		return nil, fmt.Errorf("a shared receive queue of %d with %d elements each; at most %d and %d", depth, maxSGE, d.limits.WR, d.limits.SGE)
	}
	var r proto.CreateSRQReply
	b, err := d.mapReply(proto.TCreateSRQ, &proto.CreateSRQ{PD: p.handle, Depth: uint32(depth), SGE: uint32(maxSGE)}, &r,
		func() (uint32, int) { return r.Offset, ring.Shape(r.Ring).Bytes() })
	if err != nil {
		return nil, err
	}
	s := &SRQ{d: d, handle: r.Handle, queue: r.Queue, maxSGE: maxSGE, memory: b}
	m, err := ring.Open(b, ring.Shape(r.Ring))
	if err != nil {
		s.unmap()
		return nil, errors.Join(err, d.end(proto.TDestroySRQ, r.Handle))
	}
	s.recv = ring.NewProducer(m, uint32(depth))
	d.mu.Lock()
	d.srqs[s.handle] = s
	d.mu.Unlock()
	return s, nil
}

// PostRecv implements verbs.SRQ.
func (s *SRQ) PostRecv(wr *verbs.RecvWR) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory == nil {
		return errSRQDestroyed
	}
	if err := s.d.alive(); err != nil {
		return err
	}
	if len(wr.SGL) > s.maxSGE {
		return fmt.Errorf("%w: %d of %d", verbs.ErrSGL, len(wr.SGL), s.maxSGE)
	}
	return s.d.postRecv(s.recv, s.queue, wr)
}

// SetLimit implements verbs.SRQ.
func (s *SRQ) SetLimit(n int) error {
	if n < 0 || n > math.MaxInt32 {
		return fmt.Errorf("a limit of %d: choose 0 to %d", n, math.MaxInt32)
	}
	return s.d.plain(proto.TSetSRQLimit, &proto.SRQLimit{Handle: s.handle, Limit: int32(n)}, nil)
}

// Limit returns the limit of SetLimit, 0 if there is none or the queue has reported it.
func (s *SRQ) Limit() (int, error) {
	var r proto.SRQLimit
	err := s.d.plain(proto.TQuerySRQ, &proto.Handle{Handle: s.handle}, &r)
	return int(r.Limit), err
}

// Destroy implements verbs.SRQ.
func (s *SRQ) Destroy() error {
	had, err := destroy(s.d, s.d.srqs, s, s.handle, proto.TDestroySRQ)
	if !had {
		return cmp.Or(s.d.alive(), errSRQDestroyed)
	}
	return err
}

var errSRQDestroyed = fmt.Errorf("the shared receive queue %w", verbs.ErrDestroyed)

func (s *SRQ) detach() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.memory
	s.memory = nil
	return b
}

func (s *SRQ) attach(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory = b
}

func (s *SRQ) unmap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory != nil {
		_ = unix.Munmap(s.memory)
		s.memory = nil
	}
}
