// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Distribution is a memory region whose data goes on to a group of destinations (S2.7). A WRITE of
// a peer to the region, with immediate data or without, leaves from its memory to the same offset of
// each destination's region. The engine sends it: the application has no part in it, and gets no
// completion for it.
//
// The origin's WRITE is acknowledged when its data is in the region. When each destination has
// acknowledged it or has failed, the origin gets a report (mr.ParseReport) as a SEND on the queue
// pair of the WRITE, for which it has posted a receive. The origin must not write to the same bytes
// again before.
//
// The work requests of distributions have places of their own in the send queues of the group's queue
// pairs and of the origin's: qp.MaxInternal in each. While these are in use they wait.
type Distribution struct {
	region *mr.Region
	pd     *PD

	// The engine's.
	forward *mr.Distribution // nil before the region is complete
	group   map[uint32]*QP   // queue pairs by number, as a number may get another owner
	origins []*internalSends // sends of the messages without a report, in their order
	unsent  []unsentReport   // reports whose send queue was full
	ended   []endedSend      // work requests that completed since the last run
	queued  bool             // the distribution is in distributor.queue
	closed  bool             // Deregister was called: nothing is forwarded any more
	stats   mr.DistributionStats
}

var (
	_ mr.Distributor        = (*PD)(nil)
	_ mr.DistributionRegion = (*Distribution)(nil)
)

var errDistributionSpec = errors.New("nic: a distribution region has AccessLocalWrite and AccessRemoteWrite, and neither Arrived nor Invalidatable")

// Distribute implements mr.Distributor: RegDistribution of memory of this process.
func (p *PD) Distribute(b []byte, g mr.Group) (mr.DistributionRegion, error) {
	d, err := p.RegDistribution(mr.Spec{Host: b, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite}, g)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// RegDistribution registers memory as a distribution region with a group of 1 to 4 destinations. The
// queue pairs of the group are RC, not in out-of-order mode, and of this domain, one for each
// destination. A destination whose queue pair fails, or is destroyed or reset, fails in all further
// reports and delays no other.
//
// The Spec is that of Register. Its Access has AccessLocalWrite and AccessRemoteWrite, and its
// Arrived is nil.
func (p *PD) RegDistribution(s mr.Spec, g mr.Group) (*Distribution, error) {
	const rights = verbs.AccessLocalWrite | verbs.AccessRemoteWrite
	if s.Access&rights != rights || s.Arrived != nil || s.Invalidatable {
		return nil, errDistributionSpec
	}
	d := &Distribution{pd: p, group: map[uint32]*QP{}}
	s.Arrived = d.arrived
	var err error
	if d.region, err = p.Register(s); err != nil {
		return nil, err
	}
	if err := p.dev.do(func() error { return d.begin(g) }); err != nil {
		return nil, errors.Join(err, d.region.Deregister())
	}
	return d, nil
}

// begin finds the queue pairs of the group. It runs in the engine's thread.
func (d *Distribution) begin(g mr.Group) (err error) {
	e := d.pd.dev.eng
	for i, to := range g {
		x := e.qps.Lookup(to.QPN)
		if x == nil || x.typ != verbs.RC || x.pd.num != d.pd.num {
			return fmt.Errorf("nic: destination %d of the group: %d is no RC queue pair of the region's protection domain", i, to.QPN)
		}
		if x.ooo != nil {
			return fmt.Errorf("nic: destination %d of the group: queue pair %d is in out-of-order mode: choose one without", i, to.QPN)
		}
		d.group[to.QPN] = x
	}
	forward, err := mr.NewDistribution(g, d.region.VA(), d.region.Len(), d.region.LKey())
	if err != nil {
		return err
	}
	d.forward = forward
	if e.distributor == nil {
		e.distributor = &distributor{e: e}
	}
	return nil
}

// VA is the address of the first byte.
func (d *Distribution) VA() uint64 { return d.region.VA() }

// Len is the length in bytes.
func (d *Distribution) Len() uint64 { return d.region.Len() }

// LKey is the key for work requests.
func (d *Distribution) LKey() uint32 { return d.region.LKey() }

// RKey is the key for peers.
func (d *Distribution) RKey() uint32 { return d.region.RKey() }

// Stats returns the counters.
func (d *Distribution) Stats() (s mr.DistributionStats, err error) {
	err = d.pd.dev.do(func() error { s = d.stats; return nil })
	return s, err
}

// Deregister ends the region. The error wraps verbs.ErrBusy while messages have no report. If
// destinations do not respond, or origins take no reports, and retries have no end, destroy their
// queue pairs first.
func (d *Distribution) Deregister() error {
	err := d.pd.dev.do(func() error {
		if !d.forward.Idle() || len(d.unsent) > 0 {
			return fmt.Errorf("nic: the distribution region is %w: messages have no report yet; wait, or destroy the queue pairs of destinations that do not respond and of origins that take no reports", verbs.ErrBusy)
		}
		d.closed = true
		return nil
	})
	if errors.Is(err, verbs.ErrBusy) {
		return err
	}
	// After another error the engine has ended, and forwards nothing.
	if err := d.region.Deregister(); err != nil {
		_ = d.pd.dev.do(func() error { d.closed = false; return nil })
		return err
	}
	return nil
}

// arrived is Spec.Arrived. A queue pair is in the middle of a packet, so run does the rest.
func (d *Distribution) arrived(a mem.Arrival, offset uint64) {
	if d.forward == nil { // a peer has guessed the key
		return
	}
	d.stats.Arrived++
	e := d.pd.dev.eng
	x := e.qps.Lookup(a.QPN)
	full := len(d.origins)+len(d.unsent) >= mr.DistributionDepth
	if x == nil || d.closed || full || !d.forward.Arrived(a, offset) {
		d.stats.Refused++
		return
	}
	d.origins = append(d.origins, x.internalSends())
	e.distributor.add(d)
}
