// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// probe measures the round trip to peers that do not stamp, on one packet at a time.
type probe struct {
	qp   *QP
	psn  rocev2.PSN
	sent qp.Time // 0 = none under way
}

// probeTimeout is when a probe without an answer makes room for another.
const probeTimeout = qp.Time(1e9)

// leaves looks at a packet that leaves for the peer.
func (p *probe) leaves(x *QP, o *qp.Outbound, now qp.Time) {
	switch {
	case o.Again: // Karn: its answer could be the answer to either
		if p.qp == x {
			p.sent = 0
		}
	case o.AckReq && o.Opcode != rocev2.RCReadRequest && (p.sent == 0 || now-p.sent > probeTimeout):
		*p = probe{x, o.PSN, now}
	}
}

// answered looks at a packet of the peer, and returns the round trip if it is the
// one that was waited for, or one for packets behind it: a peer that has much to do
// answers many at once, and hardly ever names this one.
func (p *probe) answered(x *QP, op rocev2.Operation, psn rocev2.PSN, now qp.Time) (rtt, sent qp.Time) {
	if p.sent == 0 || p.qp != x || psn.Diff(p.psn) < 0 {
		return 0, 0
	}
	switch op {
	case rocev2.OperationAck, rocev2.OperationAtomicAck, rocev2.OperationReadResponse:
		rtt, sent, p.sent = now-p.sent, p.sent, 0
	}
	return rtt, sent
}
