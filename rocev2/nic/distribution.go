// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"

	"github.com/softroce/softroce-xdp/rocev2/engine"
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
type Distribution struct {
	region *mr.Region
	pd     *PD
	core   engine.Distribution // the runner's
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
	d := &Distribution{pd: p}
	s.Arrived = d.core.Arrived
	var err error
	if d.region, err = p.Register(s); err != nil {
		return nil, err
	}
	if err := p.dev.do(func() error { return p.dev.eng.core.Distribute(&d.core, d.region, p.num, g) }); err != nil {
		return nil, errors.Join(err, d.region.Deregister())
	}
	return d, nil
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
	err = d.pd.dev.do(func() error { s = d.core.Stats(); return nil })
	return s, err
}

// Deregister ends the region. The error wraps verbs.ErrBusy while messages have no report. If
// destinations do not respond, or origins take no reports, and retries have no end, destroy their
// queue pairs first.
func (d *Distribution) Deregister() error {
	err := d.pd.dev.do(d.core.Close)
	if errors.Is(err, verbs.ErrBusy) {
		return err
	}
	// After another error the engine has ended, and forwards nothing.
	if err := d.region.Deregister(); err != nil {
		_ = d.pd.dev.do(func() error { d.core.Reopen(); return nil })
		return err
	}
	return nil
}
