// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Hub is a Side that distributes (S2.7).
type Hub interface {
	Side
	// Distribute registers size bytes of pd. What a peer writes there leaves to the same offset of
	// all destinations, whose queue pairs are of the same domain.
	Distribute(pd verbs.PD, size int, to []Destination) (verbs.DM, error)
}

// Destination is a destination of a Hub.
type Destination struct {
	QP   verbs.QP // queue pair of the hub
	Addr uint64
	RKey uint32
}

// Star is a hub with its destinations. The first of them is the origin too, on a queue pair and
// with memory of its own.
type Star struct {
	origin *end
	at     []*end   // the destinations; they receive in their sinks
	all    []*end   // ends in the order of their creation
	pd     verbs.PD // protection domain of the hub
	region verbs.DM
	seed   uint64
}

// inDomain is a Side whose ends share a protection domain.
type inDomain struct {
	Side
	pd verbs.PD
}

// Bytes of a distribution region, and where in it a message begins.
const (
	starBytes = 65536
	starOff   = 100
)

// NewStar connects a hub with destinations. Close it before the sides.
func NewStar(hub Hub, peers ...Side) (s *Star, err error) {
	s = &Star{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.pd, err = hub.AllocPD(); err != nil {
		return s, err
	}
	join := func(peer Side) (hubEnd, peerEnd *end, err error) {
		ends, err := connectPair(inDomain{hub, s.pd}, peer, plain, peerRights, nil)
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
		to = append(to, Destination{QP: x.qp, Addr: at.sink.VA(), RKey: at.sink.RKey()})
	}
	if _, s.origin, err = join(peers[0]); err != nil {
		return s, err
	}
	s.region, err = hub.Distribute(s.pd, starBytes, to)
	return s, err
}

// Close removes what NewStar made.
func (s *Star) Close() error {
	var errs []error
	if s.region != nil {
		errs = append(errs, s.region.Deregister())
	}
	for _, e := range s.all {
		errs = append(errs, e.close())
	}
	if s.pd != nil {
		errs = append(errs, s.pd.Free())
	}
	return errors.Join(errs...)
}

// VA is where messages are written, as the origin names it.
func (s *Star) VA() uint64 { return s.region.VA() + starOff }

// Fail puts the queue pair of a destination into ERR.
func (s *Star) Fail(i int) error {
	return s.at[i].qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState)
}

// Send has the origin write size bytes, and returns the payload of its report, which has
// reportBytes.
func (s *Star) Send(ctx context.Context, size, reportBytes int) ([]byte, error) {
	if size < 0 || size > starBytes-starOff-guard {
		return nil, fmt.Errorf("%d bytes: use 0 to %d", size, starBytes-starOff-guard)
	}
	s.seed += 2
	for _, e := range s.at {
		if err := fill(e.sink, 0, starBytes, s.seed, 0); err != nil {
			return nil, err
		}
	}
	o := s.origin
	err := fill(o.source, 0, size, s.seed+1, 0)
	if err == nil {
		err = postRecv(o.qp, verbs.RecvWR{SGL: piece(o.sink, 0, reportBytes)})
	}
	if err == nil {
		err = postSend(o.qp, verbs.SendWR{Op: verbs.OpWrite, SGL: piece(o.source, 0, size), RemoteAddr: s.VA(), RKey: s.region.RKey()})
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
	if got[0].Op != verbs.OpRecv || int(got[0].Bytes) != reportBytes {
		return nil, fmt.Errorf("%s: report %+v, want a SEND of %d bytes", o.side.Name(), got[0], reportBytes)
	}
	report := make([]byte, reportBytes)
	_, err = o.sink.ReadAt(report, 0)
	return report, err
}

// Holds reports whether a destination has the size bytes that were sent last. Half of them, or
// bytes around them, are an error.
func (s *Star) Holds(i, size int) (bool, error) {
	sink := s.at[i].sink
	after := starOff + size
	before := same(sink, 0, starOff, s.seed)
	m, err := check(sink, after, guard, s.seed, uint64(after))
	if err == nil && m.Bad > 0 {
		err = fmt.Errorf("%d bytes behind the message were overwritten", m.Bad)
	}
	if err = errors.Join(before, err); err != nil {
		return false, err
	}
	if m, err = check(sink, starOff, size, s.seed+1, 0); err != nil || m.Bad == 0 {
		return err == nil, err
	}
	wrong := m
	if m, err = check(sink, starOff, size, s.seed, starOff); err == nil && m.Bad > 0 {
		err = fmt.Errorf("%d of %d bytes are wrong, the first at %d", wrong.Bad, size, wrong.First)
	}
	return false, err
}
