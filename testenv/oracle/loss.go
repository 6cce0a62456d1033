// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Efficiency is how often a requester's packets had to be sent until all had arrived.
type Efficiency struct {
	Run       RunResult
	Delivered uint64 // request packets that the messages take
	Sent      uint64 // request packets that the requester sent
}

// PerDelivered is packets sent per packet delivered: 1 without loss.
func (e Efficiency) PerDelivered() float64 { return float64(e.Sent) / float64(e.Delivered) }

// Efficiency has the requester (A, or B if fromB) write count messages of size bytes, depth at a
// time, while netem is in force. sent reads how many packets the requester has sent so far.
func (b *Bench) Efficiency(
	ctx context.Context, l Link, fromB bool, size, count, depth int, sent func(context.Context) (uint64, error),
) (e Efficiency, err error) {
	if depth > maxCount || depth*size > region {
		return e, fmt.Errorf("%d messages of %d bytes at a time are more than %d, or do not fit %d bytes", depth, size, maxCount, region)
	}
	if err := b.use(ctx, l); err != nil {
		return e, err
	}
	from, to := b.ends[0], b.ends[1]
	if fromB {
		from, to = to, from
	}
	b.seed++
	seed := b.seed << 16
	if err := errors.Join(fill(from.source, 0, depth*size, seed, 0), fill(to.sink, 0, depth*size, seed+1, 0)); err != nil {
		return e, err
	}
	before, err := sent(ctx)
	if err != nil {
		return e, err
	}
	e.Run, err = Run{
		CQ: from.sendCQ, Count: count, Depth: depth, Stride: size, Wait: 5 * time.Minute,
		WR: verbs.SendWR{Op: verbs.OpWrite, SGL: piece(from.source, 0, size), RemoteAddr: to.sink.VA(), RKey: to.sink.RKey()},
	}.send(ctx, from.qp)
	if err == nil && (e.Run.Done != count || e.Run.Errors > 0) {
		err = fmt.Errorf("%+v, want %d messages done", e.Run, count)
	}
	if err != nil {
		return e, errors.Join(err, b.drop())
	}
	after, err := sent(ctx)
	if err != nil {
		return e, err
	}
	e.Sent = after - before
	e.Delivered = uint64(count) * uint64(l.PMTU.Packets(uint32(size)))
	m, err := check(to.sink, 0, depth*size, seed, 0)
	if err == nil && m.Bad > 0 {
		err = fmt.Errorf("%d bytes are wrong, the first at %d", m.Bad, m.First)
	}
	return e, err
}
