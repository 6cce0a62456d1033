// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"fmt"
)

// Hub is a Side that distributes (S2.7).
type Hub interface {
	Side
	// Distribute registers size bytes of pd. What a peer writes there leaves to the same offset of
	// all destinations, whose queue pairs are of the same domain.
	Distribute(ctx context.Context, pd PD, size int, to []Destination) (MR, error)
}

// Destination is a destination of a Hub.
type Destination struct {
	QP   QP // of the hub
	Addr uint64
	RKey uint32
}

// Star is a hub with its destinations. The first of them is the origin too, on a queue pair and
// with memory of its own.
type Star struct {
	origin *end
	at     []*end // the destinations; they receive in their sinks
	all    []*end // in the order of their making
	pd     PD     // of the hub
	region MR
	seed   uint64
}

// inDomain is a Side whose ends share a protection domain, and leave it.
type inDomain struct {
	Side
	pd PD
}

func (s inDomain) NewPD(context.Context) (PD, error) { return borrowed{s.pd}, nil }

type borrowed struct{ PD }

func (borrowed) Destroy(context.Context) error { return nil }

// Bytes of a distribution region, and where in it a message begins.
const (
	starBytes = 65536
	starOff   = 100
)

// NewStar connects a hub with destinations. Close it before the sides.
func NewStar(ctx context.Context, hub Hub, peers ...Side) (s *Star, err error) {
	s = &Star{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(ctx))
		}
	}()
	if s.pd, err = hub.NewPD(ctx); err != nil {
		return s, err
	}
	join := func(peer Side) (hubEnd, peerEnd *end, err error) {
		ends, err := connectPair(ctx, inDomain{hub, s.pd}, peer, plain, AllRights&^MWBind)
		if err == nil {
			s.all = append(s.all, ends[:]...)
		}
		return ends[0], ends[1], err
	}
	var to []Destination
	for _, peer := range peers {
		x, at, err := join(peer)
		if err != nil {
			return s, err
		}
		s.at = append(s.at, at)
		to = append(to, Destination{QP: x.qp, Addr: at.sink.Addr(), RKey: at.sink.RKey()})
	}
	if _, s.origin, err = join(peers[0]); err != nil {
		return s, err
	}
	s.region, err = hub.Distribute(ctx, s.pd, starBytes, to)
	return s, err
}

// Close removes what NewStar made.
func (s *Star) Close(ctx context.Context) error {
	var errs []error
	if s.region != nil {
		errs = append(errs, s.region.Destroy(ctx))
	}
	for _, e := range s.all {
		errs = append(errs, e.close(ctx))
	}
	if s.pd != nil {
		errs = append(errs, s.pd.Destroy(ctx))
	}
	return errors.Join(errs...)
}

// VA is where messages are written, as the origin names it.
func (s *Star) VA() uint64 { return s.region.Addr() + starOff }

// Fail puts the queue pair of a destination into ERR.
func (s *Star) Fail(ctx context.Context, i int) error { return s.at[i].qp.To(ctx, Err) }

// Send has the origin write size bytes, and returns the payload of its report, which has
// reportBytes.
func (s *Star) Send(ctx context.Context, size, reportBytes int) ([]byte, error) {
	if size < 0 || size > starBytes-starOff-guard {
		return nil, fmt.Errorf("%d bytes: use 0 to %d", size, starBytes-starOff-guard)
	}
	s.seed += 2
	for _, e := range s.at {
		if err := e.sink.Fill(ctx, 0, starBytes, s.seed, 0); err != nil {
			return nil, err
		}
	}
	o := s.origin
	err := o.source.Fill(ctx, 0, size, s.seed+1, 0)
	if err == nil {
		err = o.qp.PostRecv(ctx, RecvWR{SGEs: []SGE{{o.sink, 0, reportBytes}}})
	}
	if err == nil {
		err = o.qp.PostSend(ctx, SendWR{Op: Write, SGEs: []SGE{{o.source, 0, size}}, RemoteAddr: s.VA(), RKey: s.region.RKey()})
	}
	if err != nil {
		return nil, err
	}
	if _, err := poll(ctx, o, o.sendCQ, "write", 1); err != nil {
		return nil, err
	}
	got, err := poll(ctx, o, o.recvCQ, "report", 1)
	if err != nil {
		return nil, err
	}
	if got[0].Op != WCRecv || got[0].Len != reportBytes {
		return nil, fmt.Errorf("%s: report %+v, want a SEND of %d bytes", o.side.Name(), got[0], reportBytes)
	}
	return o.sink.Peek(ctx, 0, reportBytes)
}

// Holds reports whether a destination has the size bytes that were sent last. Half of them, or
// bytes around them, are an error.
func (s *Star) Holds(ctx context.Context, i, size int) (bool, error) {
	sink := s.at[i].sink
	after := starOff + size
	before := same(ctx, sink, 0, starOff, s.seed)
	m, err := sink.Check(ctx, after, guard, s.seed, uint64(after))
	if err == nil && m.Bad > 0 {
		err = fmt.Errorf("%d bytes behind the message were overwritten", m.Bad)
	}
	if err = errors.Join(before, err); err != nil {
		return false, err
	}
	if m, err = sink.Check(ctx, starOff, size, s.seed+1, 0); err != nil || m.Bad == 0 {
		return err == nil, err
	}
	wrong := m
	if m, err = sink.Check(ctx, starOff, size, s.seed, starOff); err == nil && m.Bad > 0 {
		err = fmt.Errorf("%d of %d bytes are wrong, the first at %d", wrong.Bad, size, wrong.First)
	}
	return false, err
}
