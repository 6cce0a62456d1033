// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"context"
	"errors"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/engines"
)

// disorderContender is a transport of the comparison.
type disorderContender struct {
	name       string
	outOfOrder bool
	sack       bool
	payload    int // payload of a packet, if not the path MTU
}

var disorderContend = []disorderContender{
	{name: "ooo", outOfOrder: true},
	{name: "SACK", sack: true},
	{name: "go-back-N"},
	{name: "ooo 1392", outOfOrder: true, payload: 1392}, // what the MTU of 1500 has room for
}

// Indices of contend that the goals compare.
const (
	disorderInOOO = iota
	disorderInSACK
	disorderInGBN
	disorderInMTU // out-of-order mode with packets of the whole MTU
	disorderContenders
)

// pair is a queue pair of each host, in the mode of its contender.
type pair struct {
	disorderContender
	*Pair
}

// connect makes a pair, and waits until both ends know what the other one understands.
func connect(ctx context.Context, n *network, c disorderContender, size int) (_ *pair, err error) {
	if !c.outOfOrder { // which would not wait for the HELLO, so that the box might lose it
		if err := n.announceSACK(c.sack); err != nil {
			return nil, err
		}
	}
	p := &pair{disorderContender: c}
	if p.Pair, err = New(n.hosts, Config{Name: c.name, OutOfOrder: c.outOfOrder, Payload: c.payload, Size: size}); err != nil {
		return nil, err
	}
	if err := p.understand(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// understand sends messages until both ends have negotiated what the contender uses.
func (p *pair) understand(ctx context.Context) error {
	return Until(ctx, p.name+": HELLO has told what the peer understands", func() (bool, error) {
		if err := p.Post(0); err != nil {
			return false, err
		}
		for i := range p.CQ {
			c, err := engines.PollOne(p.CQ[i], time.Minute)
			if err == nil {
				_, err = p.Check(i, &c)
			}
			if err != nil {
				return false, err
			}
		}
		for _, q := range p.QP {
			a, err := q.Query()
			if err != nil {
				return false, err
			}
			if !p.outOfOrder && a.Selective != p.sack {
				return false, nil
			}
		}
		return true, nil
	})
}
