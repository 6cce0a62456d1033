// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// refusal returns the code for a fault, 0 for none. As in an RC NAK, the peer does not learn
// which check failed.
func refusal(f mem.Fault) rocev2.ONakCode {
	switch f {
	case mem.FaultNone:
		return 0
	case mem.FaultBackend:
		return rocev2.ONakRemoteOp
	}
	return rocev2.ONakRemoteAccess
}

// writeMemory is the memory access of the receiving engine: it places the data of one packet
// where that packet says.
func (r *receiver) writeMemory(f *rocev2.OETHFields, data []byte) rocev2.ONakCode {
	c := &r.q.cfg
	code := refusal(c.Memory.WriteRemote(c.PD, c.QPN, f.RKey, f.VA, data))
	if code == 0 && len(data) > 0 {
		c.Count.Placed++
		c.Count.PlacedBytes += uint64(len(data))
	}
	return code
}

func (r *receiver) checkRead(f *rocev2.OETHFields) rocev2.ONakCode {
	c := &r.q.cfg
	return refusal(c.Memory.CheckRemote(c.PD, c.QPN, f.RKey, f.VA, f.Length, verbs.AccessRemoteRead))
}

// readMemory reads the data of an OREAD_RESP. If the memory is not accessible any more, an ONAK
// takes its place.
func (r *receiver) readMemory(o *Outbound, dst []byte) bool {
	c := &r.q.cfg
	code := refusal(c.Memory.ReadRemote(c.PD, c.QPN, o.data.key, o.data.addr, dst))
	if code == 0 {
		return true
	}
	r.refuse(answer{psn: o.data.psn, message: o.data.id, port: o.SrcPort, rail: uint8(o.Rail)}, code)
	return false
}
