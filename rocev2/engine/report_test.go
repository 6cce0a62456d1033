// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// TestReportAnswers: what is reported of ACKs and echoes that are due, and of losses on the forward path.
func TestReportAnswers(t *testing.T) {
	type sent struct {
		op      rocev2.Opcode
		stamped bool
		missed  uint16
	}
	for _, c := range []struct {
		name string
		sent []sent
		due  bool
		lost uint16
	}{
		{"a WRITE's middle, as an ACK will cover it", []sent{{rocev2.RCWriteMiddle, false, 0}}, true, 0},
		{"an ATOMIC", []sent{{rocev2.RCFetchAdd, false, 0}}, true, 0},
		{"a READ", []sent{{rocev2.RCReadRequest, false, 0}}, false, 0},
		{"READ responses", []sent{{rocev2.RCReadResponseFirst, false, 0}}, false, 0},
		{"an ACK", []sent{{rocev2.RCAck, false, 0}}, false, 0},
		{"UC", []sent{{rocev2.UCWriteOnly, false, 0}}, false, 0},
		{"UD", []sent{{rocev2.UDSendOnly, false, 0}}, false, 0},
		{"all of these, stamped", []sent{{rocev2.UDSendOnly, true, 0}, {rocev2.RCReadResponseFirst, true, 0}}, true, 0},
		{"READ responses and a WRITE", []sent{{rocev2.RCReadResponseFirst, false, 0}, {rocev2.RCWriteOnly, false, 0}}, true, 0},
		{"WRITEs again", []sent{{rocev2.RCWriteOnly, false, 1}, {rocev2.RCWriteOnly, false, 1}}, true, 1},
		{"READ responses again", []sent{{rocev2.RCReadResponseOnly, false, 3}, {rocev2.RCReadResponseOnly, false, 2}}, false, 5},
		{"very many", []sent{{rocev2.RCReadResponseOnly, false, 65535}, {rocev2.RCReadResponseOnly, false, 65535}}, false, 65535},
	} {
		var r DestSync
		for _, s := range c.sent {
			o := qp.Outbound{Missed: s.missed}
			o.Opcode = s.op
			if s.stamped {
				o.Stamp = &rocev2.Stamp{}
			}
			r.answers(&o)
		}
		if r.Due != c.due || r.Lost != c.lost {
			t.Errorf("%s: due %v, %d lost, want %v and %d", c.name, r.Due, r.Lost, c.due, c.lost)
		}
	}
}

// The answer to a READ waits for those before it at the responder: it is no round trip.
func TestProbeIsNoRead(t *testing.T) {
	for op, want := range map[rocev2.Opcode]bool{rocev2.RCReadRequest: false, rocev2.RCWriteOnly: true, rocev2.RCFetchAdd: true} {
		var p probe
		o := qp.Outbound{}
		o.Opcode, o.AckReq = op, true
		if p.leaves(new(QP), &o, 5); (p.sent != 0) != want {
			t.Errorf("%v: probed %v, want %v", op, p.sent != 0, want)
		}
	}
}
