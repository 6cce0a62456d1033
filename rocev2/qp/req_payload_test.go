// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

// Inline data is copied by PostSend; lists are gathered and scattered across elements.
func TestLists(t *testing.T) {
	x := newSource(t, RC)
	data := []byte("inline")
	x.post(OpSend, 0, Inline, func(wr *SendWR) { wr.SGL, wr.Data = nil, data })
	copy(data, "xxxxxx")
	list := func(wr *SendWR) {
		wr.SGL = []SGE{{dataBase + 1000, 300, dataKey}, {0, 0, 0}, {dataBase + 3000, 1, dataKey}, {dataBase + 2000, 99, dataKey}}
	}
	x.post(OpSend, 0, 0, list)
	x.post(OpRead, 0, 0, list)
	m := x.m.regions[dataKey].data
	all := string(m[1000:1300]) + string(m[3000:3001]) + string(m[2000:2099])
	x.wantAsked(
		asked{Op: rocev2.RCSendOnly, PSN: psn(0), Ack: true, Data: "inline"},
		asked{Op: rocev2.RCSendFirst, PSN: psn(1), Data: all[:256]},
		asked{Op: rocev2.RCSendLast, PSN: psn(2), Ack: true, Data: all[256:]},
		asked{Op: rocev2.RCReadRequest, PSN: psn(3), Ack: true, VA: 0x8000, Len: 400},
	)
	x.response(3, 0, 2, 400)
	x.wantDone(0, Success, Success, Success)
	want := string(pattern(9, 400))
	if got := string(m[1000:1300]) + string(m[3000:3001]) + string(m[2000:2099]); got != want {
		t.Error("the data of the READ is not where its list points")
	}
}

// A fault of the sender's own memory: earlier work requests end normally, then this one fails
// and the connection ends; none of its packets was sent.
func TestLocalProtection(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpWrite, 300, 0)
	x.post(OpWrite, 300, 0, func(wr *SendWR) { wr.SGL[0].LKey = 0xBAD })
	x.post(OpWrite, 300, 0)
	x.wantSent("0 1A")
	x.wantState(RTS)
	x.ack(0)
	x.nak(1, rocev2.NAKPSNSequence)
	x.wantSent("1A!")
	x.ack(1)
	x.wantDone(0, Success, LocalProtection, WRFlushed)
	x.wantState(Err)

	for _, typ := range []Type{UC, UD} { // IBTA 10.3.1
		x := newSource(t, typ)
		x.post(OpSend, 100, 0)
		x.post(OpSend, 100, 0, func(wr *SendWR) { wr.SGL[0].Addr = 0 })
		x.post(OpSend, 100, 0)
		x.wantSent("0")
		x.wantDone(0, Success, LocalProtection, WRFlushed)
		x.wantState(SQE)
		x.post(OpSend, 100, 0)
		x.wantDone(3, WRFlushed)
		if err := x.q.Modify(Attr{State: RTS}, MaskState); err != nil {
			t.Fatal(err)
		}
		x.post(OpSend, 100, 0)
		if len(x.sends(10)) != 1 {
			t.Error("nothing is sent after SQE")
		}
		x.wantDone(4, Success)
	}
}
