// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// What is reported of packets that have left (dataplane_sync.go).

// answers notes whether an ACK or an echo is due for a packet, and what was lost before it.
// READ responses, UC and UD are not acknowledged, but the peer may echo their stamps. The
// response to a READ comes after the responses before it, so that it measures nothing.
//
// Of requests that go again, one a report counts: a go-back-N requester repeats many for each
// that was lost.
func (r *DestSync) answers(o *qp.Outbound) {
	r.Due = r.Due || o.Stamp != nil
	info := o.Opcode.Info()
	switch info.Operation {
	case rocev2.OperationReadResponse:
		r.Lost = uint16(min(uint32(r.Lost)+uint32(o.Missed), math.MaxUint16))
		return
	case rocev2.OperationRead, rocev2.OperationAck, rocev2.OperationAtomicAck:
	default:
		r.Due = r.Due || info.Class != rocev2.ClassUC && info.Class != rocev2.ClassUD
	}
	if o.Missed != 0 {
		r.Lost = max(r.Lost, 1)
	}
}

// add adds an earlier report, which failed, to the present one.
func (r *DestSync) add(earlier *DestSync) {
	r.Packets += earlier.Packets
	r.Unstamped += earlier.Unstamped
	r.Bytes += earlier.Bytes
	r.Repeated += earlier.Repeated
	r.Lost = uint16(min(uint32(r.Lost)+uint32(earlier.Lost), math.MaxUint16))
	r.Due = r.Due || earlier.Due
	r.Waited += earlier.Waited
	r.WaitedTime += earlier.WaitedTime
	r.CEEchoed = r.CEEchoed || earlier.CEEchoed
	r.Ask = r.Ask || earlier.Ask
	if earlier.RTT != 0 && (r.RTT == 0 || earlier.RTT < r.RTT) {
		r.RTT, r.RTTSent = earlier.RTT, earlier.RTTSent
	}
}

// sent accounts a packet of a queue pair that has left. x: nil for queue pair 1.
func (t *transmitter) sent(x *QP, d *dest, o *qp.Outbound, plain int) {
	r := &d.report
	r.Packets++
	r.Bytes += uint64(plain)
	if o.Stamp == nil {
		r.Unstamped++
		d.probe.leaves(x, o, t.e.now)
	} else {
		t.e.count.txStamped++
	}
	r.answers(o)
	if o.Lost {
		r.Repeated++
	}
	t.e.dests.queueForSync(d)
}
