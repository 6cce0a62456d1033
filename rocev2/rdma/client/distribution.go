// SPDX-License-Identifier: Apache-2.0

package client

import (
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Distribution is a distribution region. It implements mr.DistributionRegion.
type Distribution struct{ *MR }

// Distribute implements mr.Distributor.
func (p *PD) Distribute(b []byte, g mr.Group) (mr.DistributionRegion, error) {
	if err := g.Check(uint64(len(b))); err != nil {
		return nil, err
	}
	m, err := p.register(b, addressOf(b), verbs.AccessLocalWrite|verbs.AccessRemoteWrite, g)
	if err != nil {
		return nil, err
	}
	return &Distribution{m}, nil
}

// Stats implements mr.DistributionRegion.
func (d *Distribution) Stats() (s mr.DistributionStats, err error) {
	err = d.d.plain(proto.TDistributionStats, &proto.Handle{Handle: d.handle}, (*proto.DistributionStats)(&s))
	return s, err
}
