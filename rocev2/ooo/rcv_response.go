// SPDX-License-Identifier: Apache-2.0

package ooo

import "github.com/softroce/softroce-xdp/rocev2"

// nextResponse is the response packet processing: it writes the oldest response without data.
func (r *receiver) nextResponse(o *Outbound) bool {
	if r.responses.acks.n == 0 {
		return false
	}
	a := r.responses.acks.pop()
	f := o.begin(r.q, a.op, a.psn, a.port)
	o.Rail = int(a.rail)
	o.BECN = a.congested
	switch a.op {
	case rocev2.OpOAck:
		f.OACK = r.state(&a)
	case rocev2.OpONotifyAck:
		f.NotifyAck = rocev2.ONotifyAckFields{Message: a.message, EchoUs: a.echoUs}
	case rocev2.OpONak:
		f.Nak = rocev2.ONakFields{Message: a.message, Code: a.code}
	}
	return true
}

// state returns what has arrived, for an OACK. It is that of now, not of when the packet arrived.
func (r *receiver) state(a *answer) rocev2.OACKFields {
	w := &r.arrivals
	f := rocev2.OACKFields{
		Message: a.message, EchoUs: a.echoUs,
		Cumulative: w.base.Add(-1), Window: uint16(w.size()), OutOfOrder: uint16(w.count),
	}
	f.Base, f.Bitmap = w.around(a.psn)
	return f
}

// nextRead writes the oldest response with data of a rail.
func (r *receiver) nextRead(rail int, o *Outbound) bool {
	reads := &r.responses.reads[rail]
	if reads.n == 0 {
		return false
	}
	a := reads.pop()
	f := o.begin(r.q, rocev2.OpOReadResp, a.psn, a.port)
	o.Rail = rail
	o.BECN = a.congested
	f.OETH = a.oeth
	o.PayloadLen = int(a.oeth.Length)
	o.read = true
	o.Again = a.oeth.Flags&rocev2.ORetry != 0
	o.data = place{addr: a.oeth.VA, key: a.oeth.RKey, id: a.message, psn: a.psn}
	r.q.cfg.Count.ReadSent++
	return true
}
