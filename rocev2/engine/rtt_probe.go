// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// probeTimeout is when a probe without an ACK is replaced by another.
const probeTimeout = qp.Time(1e9)

// leaves is called with a packet that is sent to the peer.
func (p *probe) leaves(x *QP, o *qp.Outbound, now qp.Time) {
	switch {
	case o.Again: // Karn: its ACK could be for either
		if p.qp == x {
			p.sent = 0
		}
	case o.AckReq && o.Opcode != rocev2.RCReadRequest && (p.sent == 0 || now-p.sent > probeTimeout):
		*p = probe{x, o.PSN, now}
	}
}

// answered is called with a packet of the peer. It returns the RTT if the packet acknowledges
// the probe or a later packet: a busy peer acknowledges many at once, and hardly ever names
// this one.
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
