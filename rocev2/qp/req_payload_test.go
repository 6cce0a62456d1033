// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Inline data is copied by PostSend; lists are gathered and scattered across elements.
func TestLists(t *testing.T) {
	x := newSource(t, verbs.RC)
	data := []byte("inline")
	x.post(verbs.OpSend, 0, verbs.Inline, func(wr *verbs.SendWR) { wr.SGL, wr.Data = nil, data })
	copy(data, "xxxxxx")
	list := func(wr *verbs.SendWR) {
		wr.SGL = []verbs.SGE{{Addr: dataBase + 1000, Len: 300, LKey: dataKey}, {}, {Addr: dataBase + 3000, Len: 1, LKey: dataKey}, {Addr: dataBase + 2000, Len: 99, LKey: dataKey}}
	}
	x.post(verbs.OpSend, 0, 0, list)
	x.post(verbs.OpRead, 0, 0, list)
	m := x.m.regions[dataKey].data
	all := string(m[1000:1300]) + string(m[3000:3001]) + string(m[2000:2099])
	x.wantAsked(
		asked{Op: rocev2.RCSendOnly, PSN: psn(0), Ack: true, Data: "inline"},
		asked{Op: rocev2.RCSendFirst, PSN: psn(1), Data: all[:256]},
		asked{Op: rocev2.RCSendLast, PSN: psn(2), Ack: true, Data: all[256:]},
		asked{Op: rocev2.RCReadRequest, PSN: psn(3), Ack: true, VA: 0x8000, Len: 400},
	)
	x.response(3, 0, 2, 400)
	x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess)
	want := string(pattern(9, 400))
	if got := string(m[1000:1300]) + string(m[3000:3001]) + string(m[2000:2099]); got != want {
		t.Error("the data of the READ is not where its list points")
	}
}

// A fault of the sender's own memory: earlier work requests end normally, then this one fails
// and the connection ends; none of its packets was sent.
func TestLocalProtection(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpWrite, 300, 0)
	x.post(verbs.OpWrite, 300, 0, func(wr *verbs.SendWR) { wr.SGL[0].LKey = 0xBAD })
	x.post(verbs.OpWrite, 300, 0)
	x.wantSent("0 1A")
	x.wantState(verbs.StateRTS)
	x.ack(0)
	x.nak(1, rocev2.NAKPSNSequence)
	x.wantSent("1A!")
	x.ack(1)
	x.wantDone(0, verbs.StatusSuccess, verbs.StatusLocalProtection, verbs.StatusWRFlushed)
	x.wantState(verbs.StateErr)

	for _, typ := range []verbs.QPType{verbs.UC, verbs.UD} { // IBTA 10.3.1
		x := newSource(t, typ)
		x.post(verbs.OpSend, 100, 0)
		x.post(verbs.OpSend, 100, 0, func(wr *verbs.SendWR) { wr.SGL[0].Addr = 0 })
		x.post(verbs.OpSend, 100, 0)
		x.wantSent("0")
		x.wantDone(0, verbs.StatusSuccess, verbs.StatusLocalProtection, verbs.StatusWRFlushed)
		x.wantState(verbs.StateSQE)
		x.post(verbs.OpSend, 100, 0)
		x.wantDone(3, verbs.StatusWRFlushed)
		if err := x.q.Modify(verbs.Attr{State: verbs.StateRTS}, verbs.MaskState); err != nil {
			t.Fatal(err)
		}
		x.post(verbs.OpSend, 100, 0)
		if len(x.sends(10)) != 1 {
			t.Error("nothing is sent after SQE")
		}
		x.wantDone(4, verbs.StatusSuccess)
	}
}
