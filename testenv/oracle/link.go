// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

const (
	// guard is how many bytes around a message must stay as they were.
	guard = 64
	// grh is the area in front of a datagram (IBTA 11.4.1.2).
	grh = 40
	// region is the size of each side's source and sink: all slots of a case.
	region = MaxSize + 4096
	// maxCount is the most messages at a time, and the depth of all queues.
	maxCount = 64

	udQKey = 0x11111111
)

// end is what one side has on a link.
type end struct {
	side      Side
	pd        PD
	sendCQ    CQ
	recvCQ    CQ
	srq       SRQ
	source    MR // what it sends, and what peers read
	sink      MR // what it receives, and what peers write
	window    MW
	windowKey uint32
	qp        QP
	addr      netip.Addr
	ah        AH // UD, to the peer
	cleanup   []func(context.Context) error
	firstPSN  uint32
}

// keep notes an object that close destroys, in the reverse order.
func keep[T interface {
	Destroy(context.Context) error
}](e *end, o T, err error) (T, error) {
	if err == nil {
		e.cleanup = append(e.cleanup, o.Destroy)
	}
	return o, err
}

func (e *end) close(ctx context.Context) error {
	var errs []error
	for _, destroy := range slices.Backward(e.cleanup) {
		errs = append(errs, destroy(ctx))
	}
	e.cleanup = nil
	return errors.Join(errs...)
}

// newEnd makes all that a side needs for a link, with the queue pair in INIT. rights are what peers
// may do through it.
func newEnd(ctx context.Context, s Side, l Link, psn uint32, rights Access) (e *end, err error) {
	e = &end{side: s, firstPSN: psn & 0xFFFFFF}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", s.Name(), err), e.close(ctx))
		}
	}()
	if e.addr, err = s.Addr(l.V6); err != nil {
		return e, err
	}
	pd, err := s.NewPD(ctx)
	if e.pd, err = keep(e, pd, err); err != nil {
		return e, err
	}
	for _, cq := range []*CQ{&e.sendCQ, &e.recvCQ} {
		made, err := s.NewCQ(ctx, 2*maxCount)
		if *cq, err = keep(e, made, err); err != nil {
			return e, err
		}
	}
	// Odd offsets in the page, so that messages and pages do not end together.
	for mr, offset := range map[*MR]int{&e.source: 8, &e.sink: 24} {
		made, err := e.pd.RegMR(ctx, region, offset, AllRights)
		if *mr, err = keep(e, made, err); err != nil {
			return e, err
		}
	}
	if l.SRQ {
		made, err := e.pd.NewSRQ(ctx, maxCount)
		if e.srq, err = keep(e, made, err); err != nil {
			return e, err
		}
	}
	if l.Service == RC {
		made, err := e.pd.NewMW(ctx)
		if e.window, err = keep(e, made, err); err != nil {
			return e, err
		}
		e.windowKey = e.window.RKey()
	}
	qp, err := e.pd.NewQP(ctx, QPConfig{
		Service: l.Service, SendCQ: e.sendCQ, RecvCQ: e.recvCQ, SRQ: e.srq, SendWR: maxCount, RecvWR: maxCount,
	})
	if e.qp, err = keep(e, qp, err); err != nil {
		return e, err
	}
	init := InitAttr{Rights: rights}
	if l.Service == UD {
		init = InitAttr{QKey: udQKey}
	}
	return e, e.qp.ToInit(ctx, init)
}

// connect takes the queue pair to RTS. change, unless nil, changes the attributes first.
func (e *end) connect(ctx context.Context, l Link, peer *end, change func(*RTRAttr, *RTSAttr)) error {
	if l.Service == UD {
		ah, err := e.pd.NewAH(ctx, peer.addr)
		if e.ah, err = keep(e, ah, err); err != nil {
			return fmt.Errorf("%s: %w", e.side.Name(), err)
		}
	}
	rtr := RTRAttr{
		Service: l.Service, Peer: peer.addr, DestQPN: peer.qp.QPN(), PSN: peer.firstPSN, PMTU: l.PMTU,
		DestRdAtomic: 16, MinRNRTimer: 12,
	}
	// 4.096 µs × 2^17 is half a second: a starved machine is not taken for a loss. Where there are
	// losses, waiting for it would take for ever.
	timeout := 17
	if l.Netem != "" {
		timeout = 14
	}
	rts := RTSAttr{Service: l.Service, PSN: e.firstPSN, Timeout: timeout, RetryCnt: 7, RNRRetry: 7, RdAtomic: 16}
	if change != nil {
		change(&rtr, &rts)
	}
	if err := e.qp.ToRTR(ctx, rtr); err != nil {
		return fmt.Errorf("%s to RTR: %w", e.side.Name(), err)
	}
	if err := e.qp.ToRTS(ctx, rts); err != nil {
		return fmt.Errorf("%s to RTS: %w", e.side.Name(), err)
	}
	return nil
}

// connectPair makes a link between two sides. PSNs wrap on the way: both start close to 2^24.
func connectPair(ctx context.Context, a, b Side, l Link, rights Access) (ends [2]*end, err error) {
	return connectChanged(ctx, a, b, l, rights, nil)
}

// connectChanged is connectPair with attributes changed, on both sides alike.
func connectChanged(ctx context.Context, a, b Side, l Link, rights Access, change func(*RTRAttr, *RTSAttr)) (ends [2]*end, err error) {
	for i, s := range []Side{a, b} {
		if ends[i], err = newEnd(ctx, s, l, 0xFFFFF0+uint32(i), rights); err != nil {
			if i > 0 {
				err = errors.Join(err, ends[0].close(ctx))
			}
			return ends, err
		}
	}
	err = errors.Join(ends[0].connect(ctx, l, ends[1], change), ends[1].connect(ctx, l, ends[0], change))
	if err != nil {
		err = errors.Join(err, ends[0].close(ctx), ends[1].close(ctx))
	}
	return ends, err
}
