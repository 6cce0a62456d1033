// SPDX-License-Identifier: Apache-2.0

package sides

import (
	"context"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

type completionQueue struct{ q verbs.CQ }

// NewCQ makes a completion queue.
func (s *Device) NewCQ(_ context.Context, depth int) (oracle.CQ, error) {
	q, err := s.Verbs.CreateCQ(depth)
	return completionQueue{q}, err
}

func (c completionQueue) Destroy(context.Context) error { return c.q.Destroy() }

func (c completionQueue) Poll(ctx context.Context, n int, wait time.Duration) ([]oracle.Completion, error) {
	return Poll(ctx, c.q, n, wait)
}

type sharedQueue struct {
	s *Device
	q verbs.SRQ
}

func (d Domain) NewSRQ(_ context.Context, depth int) (oracle.SRQ, error) {
	q, err := d.PD.CreateSRQ(depth, 1)
	if err != nil {
		return nil, err
	}
	s := &sharedQueue{d.s, q}
	d.s.mu.Lock()
	d.s.srqs[q] = s
	d.s.mu.Unlock()
	return s, nil
}

func (s *sharedQueue) Arm(_ context.Context, limit int) error { return s.q.SetLimit(limit) }

func (s *sharedQueue) Destroy(context.Context) error {
	s.s.mu.Lock()
	delete(s.s.srqs, s.q)
	s.s.mu.Unlock()
	return s.q.Destroy()
}

func (s *sharedQueue) PostRecv(_ context.Context, wrs ...oracle.RecvWR) error {
	return PostRecv(s.q.PostRecv, wrs)
}
