// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

func (x *source) wantAsked(want ...asked) {
	x.t.Helper()
	if got := x.sends(1000); !slices.Equal(got, want) {
		x.t.Fatalf("sent:\n got %+v\nwant %+v", got, want)
	}
}

// Messages become packets by operation, place and length; the last asks for an ACK.
// PSNs wrap in all of these.
func TestSegments(t *testing.T) {
	data := string(pattern(3, 1<<16))
	for _, c := range []struct {
		name string
		typ  Type
		op   Operation
		n    uint32
		want []asked
	}{
		{"SEND of nothing", RC, OpSend, 0, []asked{{Op: rocev2.RCSendOnly, Ack: true}}},
		{"SEND of one packet", RC, OpSend, 256, []asked{{Op: rocev2.RCSendOnly, Ack: true, Data: data[:256]}}},
		{"SEND of three", RC, OpSend, 513, []asked{
			{Op: rocev2.RCSendFirst, Data: data[:256]},
			{Op: rocev2.RCSendMiddle, Data: data[256:512]},
			{Op: rocev2.RCSendLast, Ack: true, Data: data[512:513]}}},
		{"SEND with immediate", RC, OpSendImm, 257, []asked{
			{Op: rocev2.RCSendFirst, Data: data[:256]},
			{Op: rocev2.RCSendLastImm, Ack: true, Data: data[256:257]}}},
		{"SEND with invalidate", RC, OpSendInv, 1, []asked{{Op: rocev2.RCSendOnlyInv, Ack: true, Data: data[:1]}}},
		{"long SEND with invalidate", RC, OpSendInv, 512, []asked{
			{Op: rocev2.RCSendFirst, Data: data[:256]},
			{Op: rocev2.RCSendLastInv, Ack: true, Data: data[256:512]}}},
		{"WRITE", RC, OpWrite, 600, []asked{
			{Op: rocev2.RCWriteFirst, VA: 0x8000, Len: 600, Data: data[:256]},
			{Op: rocev2.RCWriteMiddle, Data: data[256:512]},
			{Op: rocev2.RCWriteLast, Ack: true, Data: data[512:600]}}},
		{"WRITE of nothing", RC, OpWrite, 0, []asked{{Op: rocev2.RCWriteOnly, VA: 0x8000, Ack: true}}},
		{"WRITE with immediate", RC, OpWriteImm, 300, []asked{
			{Op: rocev2.RCWriteFirst, VA: 0x8000, Len: 300, Data: data[:256]},
			{Op: rocev2.RCWriteLastImm, Ack: true, Data: data[256:300]}}},
		{"short WRITE with immediate", RC, OpWriteImm, 3, []asked{
			{Op: rocev2.RCWriteOnlyImm, VA: 0x8000, Len: 3, Ack: true, Data: data[:3]}}},
		{"READ", RC, OpRead, 1000, []asked{{Op: rocev2.RCReadRequest, VA: 0x8000, Len: 1000, Ack: true}}},
		{"COMPARE_SWAP", RC, OpCompareSwap, 8, []asked{{Op: rocev2.RCCompareSwap, VA: 0x8000, Ack: true}}},
		{"FETCH_ADD", RC, OpFetchAdd, 8, []asked{{Op: rocev2.RCFetchAdd, VA: 0x8000, Ack: true}}},
		{"SEND on UC", UC, OpSend, 513, []asked{
			{Op: rocev2.UCSendFirst, Data: data[:256]},
			{Op: rocev2.UCSendMiddle, Data: data[256:512]},
			{Op: rocev2.UCSendLast, Data: data[512:513]}}},
		{"SEND with immediate on UC", UC, OpSendImm, 0, []asked{{Op: rocev2.UCSendOnlyImm}}},
		{"WRITE with immediate on UC", UC, OpWriteImm, 257, []asked{
			{Op: rocev2.UCWriteFirst, VA: 0x8000, Len: 257, Data: data[:256]},
			{Op: rocev2.UCWriteLastImm, Data: data[256:257]}}},
		{"SEND on UD", UD, OpSend, 256, []asked{{Op: rocev2.UDSendOnly, Data: data[:256]}}},
		{"SEND with immediate on UD", UD, OpSendImm, 0, []asked{{Op: rocev2.UDSendOnlyImm}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newSource(t, c.typ)
			x.post(c.op, c.n, 0)
			for i := range c.want {
				c.want[i].PSN = psn(i)
			}
			x.wantAsked(c.want...)
			switch {
			case c.typ != RC:
				x.wantDone(0, Success)
			case c.op == OpRead:
				x.wantDone(0)
				x.response(0, 0, 4, 1000)
				x.wantDone(0, Success)
			case c.op == OpCompareSwap || c.op == OpFetchAdd:
				x.atomic(0, 5)
				x.wantDone(0, Success)
			default:
				x.wantDone(0)
				x.ack(len(c.want) - 1)
				x.wantDone(0, Success)
			}
			if d := x.q.Deadline(); d != 0 {
				t.Errorf("a deadline at %d with nothing outstanding", d)
			}
		})
	}
}

// The headers that wantAsked does not show.
func TestHeaders(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpSendImm, 4, Solicited)
	x.post(OpSendInv, 600, Solicited)
	x.post(OpCompareSwap, 8, 0, func(wr *SendWR) { wr.Compare, wr.Swap = 11, 12 })
	x.post(OpFetchAdd, 8, 0, func(wr *SendWR) { wr.Add = 13 })
	var got []rocev2.Datagram
	for x.q.NextData(x.now, &x.out) {
		x.out.Fill(make([]byte, x.out.PayloadLen))
		got = append(got, x.out.Datagram)
	}
	if d := got[0]; !d.Solicited || d.Imm != 0x1111 {
		t.Errorf("SEND with immediate: %+v", d)
	}
	if got[1].Solicited || got[2].Solicited || !got[3].Solicited || got[3].RKey != 0x99 {
		t.Errorf("SEND with invalidate: solicited %v %v %v, key %#x", got[1].Solicited, got[2].Solicited, got[3].Solicited, got[3].RKey)
	}
	if d := got[4]; d.Compare != 11 || d.SwapAdd != 12 || d.RKey != 0x77 {
		t.Errorf("COMPARE_SWAP: %+v", d)
	}
	if d := got[5]; d.SwapAdd != 13 {
		t.Errorf("FETCH_ADD: %+v", d)
	}

	x = newSource(t, UD)
	x.post(OpSend, 4, 0)
	x.post(OpSend, 4, 0, func(wr *SendWR) { wr.AH.QKey, wr.AH.Path = 1<<31, "path" })
	for _, key := range []uint32{0x55, 0x1234} { // the second: the queue pair's own (IBTA 10.2)
		if !x.q.NextData(x.now, &x.out) || !x.out.Fill(make([]byte, 4)) {
			t.Fatal("nothing is sent")
		}
		if x.out.QKey != key || x.out.DestQP != peerQPN || x.out.SrcQP != sourceQPN {
			t.Errorf("UD: %+v", x.out.Datagram)
		}
	}
	if x.out.AH == nil || x.out.AH.Path != "path" {
		t.Error("UD: the address handle is not handed through")
	}
}

// Nobody knows the path at first: one window goes out, and answers open it.
func TestFirstWindow(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpWrite, 1000*256, 0)
	if got := len(x.sends(1000)); got != first {
		t.Fatalf("%d packets before the first answer, want %d", got, first)
	}
	x.ack(first - 1)
	if got := len(x.sends(1000)); got != 2*first {
		t.Errorf("%d packets after the first window arrived, want %d", got, 2*first)
	}
}

// An ACK is asked for at least every 64 packets: rxe answers nothing else.
func TestAckRequests(t *testing.T) {
	x := newSource(t, RC)
	x.q.req.window.size = widest
	x.post(OpWrite, 200*256, 0)
	var asks []int
	for i, a := range x.sends(1000) {
		if a.Ack {
			asks = append(asks, i)
		}
	}
	if want := []int{63, 127, 191, 199}; !slices.Equal(asks, want) {
		t.Errorf("ACKs asked for with %v, want %v", asks, want)
	}
}

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
		t.Error("the READ did not go where its list says")
	}
}

// What PostSend refuses, and that nothing is queued then.
func TestPostErrors(t *testing.T) {
	long := func(wr *SendWR) { wr.SGL = make([]SGE, 5) }
	huge := func(wr *SendWR) { wr.SGL = []SGE{{0, 1 << 31, 0}, {0, 1, 0}} }
	for _, c := range []struct {
		name string
		typ  Type
		op   Operation
		n    uint32
		f    Flags
		set  func(*SendWR)
		want error
	}{
		{"READ on UC", UC, OpRead, 4, 0, nil, ErrSendOp},
		{"WRITE on UD", UD, OpWrite, 4, 0, nil, ErrSendOp},
		{"no operation", RC, 0, 4, 0, nil, ErrSendOp},
		{"receive", RC, OpRecv, 4, 0, nil, ErrSendOp},
		{"long list", RC, OpSend, 0, 0, long, ErrSendSGL},
		{"long message", RC, OpWrite, 0, 0, huge, ErrSendTooLong},
		{"READ of half of all PSNs", RC, OpRead, 1 << 31, 0, nil, ErrSendTooLong},
		{"UD above the PMTU", UD, OpSend, 257, 0, nil, ErrSendTooLong},
		{"UD without a handle", UD, OpSend, 4, 0, func(wr *SendWR) { wr.AH = nil }, ErrSendAH},
		{"UD to a wide number", UD, OpSend, 4, 0, func(wr *SendWR) { wr.AH.QPN = 1 << 24 }, ErrSendAH},
		{"UD with Fence", UD, OpSend, 4, Fence, nil, ErrSendFence},
		{"ATOMIC of 4 bytes", RC, OpFetchAdd, 4, 0, nil, ErrSendAtomic},
		{"inline and a list", RC, OpSend, 4, Inline, nil, ErrSendInline},
		{"inline READ", RC, OpRead, 0, Inline, func(wr *SendWR) { wr.SGL = nil }, ErrSendInline},
		{"long inline", RC, OpSend, 0, Inline, func(wr *SendWR) { wr.SGL, wr.Data = nil, make([]byte, 513) }, ErrSendInline},
		{"data without Inline", RC, OpSend, 0, 0, func(wr *SendWR) { wr.Data = make([]byte, 1) }, errSendData},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newSource(t, c.typ)
			var change []func(*SendWR)
			if c.set != nil {
				change = append(change, c.set)
			}
			if err := x.q.PostSend(x.wr(c.op, c.n, c.f, change...)); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			x.wantSent("")
			x.wantDone(0)
		})
	}

	x := newSource(t, RC, func(_ *Config, a *Attr) { a.MaxRdAtomic = 0 })
	if err := x.q.PostSend(x.wr(OpRead, 4, 0)); !errors.Is(err, ErrSendRdAtomic) {
		t.Errorf("READ with MaxRdAtomic 0: %v", err)
	}
	// ERR reached from INIT: attributes of RTR and RTS are not there, and not needed to flush.
	q, cq := lead(t, RC, Err), &testCQ{}
	q.cfg.SendCQ, q.cfg.MaxSendSGE = cq, 1
	for _, op := range []Operation{OpSend, OpWrite, OpRead, OpFetchAdd} {
		err := q.PostSend(x.wr(op, 8, 0))
		if got := cq.take(); err != nil || len(got) != 1 || got[0].Status != WRFlushed {
			t.Errorf("operation %d in ERR: %v, completions %+v", op, err, got)
		}
	}
	if err := q.PostSend(x.wr(OpFetchAdd, 4, 0)); !errors.Is(err, ErrSendAtomic) {
		t.Errorf("FETCH_ADD of 4 bytes in ERR: %v", err)
	}
	x = newSource(t, RC, func(c *Config, _ *Attr) { c.MaxSend = 3 })
	for range 3 {
		x.post(OpSend, 1, 0)
	}
	if err := x.q.PostSend(x.wr(OpSend, 1, 0)); !errors.Is(err, ErrSendFull) {
		t.Errorf("full: %v", err)
	}
	if err := newTarget(t, RC).q.PostSend(x.wr(OpSend, 1, 0)); !errors.Is(err, ErrSendState) || !strings.Contains(err.Error(), "RTR") {
		t.Errorf("in RTR: %v", err)
	}
}

// What a packet's own memory refuses: the work requests before it end as they would,
// then it fails and the connection with it; nothing from it on was sent.
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

// Local operations run in order. LOCAL_INV waits for all before it, a bind does not.
func TestLocalOperations(t *testing.T) {
	x := newSource(t, RC)
	x.m.add(0x99, 0, 16, allRights)
	x.post(OpWrite, 1, 0)
	x.post(OpLocalInv, 0, 0)
	x.post(OpWrite, 1, 0)
	x.wantSent("0A")
	if x.m.regions[0x99].gone {
		t.Error("LOCAL_INV ran before the WRITE was acknowledged")
	}
	x.ack(0)
	x.wantDone(0, Success)
	x.wantSent("1A")
	x.wantDone(1, Success)
	if !x.m.regions[0x99].gone {
		t.Error("LOCAL_INV did nothing")
	}
	x.ack(1)
	x.wantDone(2, Success)

	x.post(OpBindWindow, 0, 0) // testMemory refuses it
	x.post(OpWrite, 1, 0)
	x.wantSent("")
	x.wantDone(3, MWBindError, WRFlushed)
	x.wantState(Err)
}

// Fence waits for the data of READs and ATOMICs, MaxRdAtomic for the oldest.
func TestFenceAndLimit(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpRead, 1, 0)
	x.post(OpWrite, 1, 0)
	x.post(OpWrite, 1, Fence)
	x.wantSent("0A 1A")
	x.response(0, 0, 1, 1)
	x.wantSent("2A")
	x.ack(2)
	x.wantDone(0, Success, Success, Success)

	for range 3 { // MaxRdAtomic is 2
		x.post(OpFetchAdd, 8, 0)
	}
	x.wantSent("3A 4A")
	x.atomic(4, 0) // the second alone does not make room: the peer counts in order
	x.wantSent("3A!")
	x.atomic(3, 0)
	x.wantSent("5A")
	x.wantDone(3, Success, Success)
}

// Completions: only those that were asked for, and errors always.
func TestSignaled(t *testing.T) {
	x := newSource(t, RC, func(c *Config, _ *Attr) { c.SignalAll = false })
	x.post(OpWrite, 1, 0)
	x.post(OpWrite, 1, Signaled)
	x.post(OpWrite, 1, 0)
	x.wantSent("0A 1A 2A")
	x.ack(1)
	x.wantDone(1, Success)
	x.nak(2, rocev2.NAKRemoteAccess)
	x.wantDone(2, RemoteAccess)

	x = newSource(t, RC)
	x.post(OpRead, 300, 0)
	x.post(OpFetchAdd, 8, 0, func(wr *SendWR) { wr.SGL[0].Addr += 1024 })
	x.wantSent("0A 2A")
	x.response(0, 0, 2, 300)
	x.atomic(2, 0x1122334455667788)
	got := x.cq.take()
	want := []Completion{
		{WRID: 0, QPN: sourceQPN, Op: OpRead, Bytes: 300},
		{WRID: 1, QPN: sourceQPN, Op: OpFetchAdd, Bytes: 8},
	}
	if !slices.Equal(got, want) {
		t.Errorf("completions: got %+v, want %+v", got, want)
	}
	if x.word(1024) != 0x1122334455667788 {
		t.Errorf("ATOMIC result %#x", x.word(1024))
	}
}

// SQD: a message that has begun goes on, the next waits, and the application hears
// once when nothing is on its way (IBTA 10.3.1).
func TestDrain(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpWrite, 600, 0)
	x.post(OpWrite, 1, 0)
	if got := x.sends(1); len(got) != 1 {
		t.Fatal("nothing is sent")
	}
	modify := func(to State) {
		t.Helper()
		if err := x.q.Modify(Attr{State: to}, MaskState); err != nil {
			t.Fatal(err)
		}
	}
	modify(SQD)
	x.wantSent("1 2A")
	x.ack(1)
	x.nak(2, rocev2.NAKPSNSequence)
	x.wantSent("2A!")
	if len(x.events) != 0 {
		t.Error("drained too early")
	}
	x.ack(2)
	if !slices.Equal(x.events, []Event{EventDrained}) {
		t.Errorf("events %v", x.events)
	}
	x.wantSent("")
	modify(RTS)
	x.wantSent("3A")
	x.ack(3)
	x.wantDone(0, Success, Success)
	x.events = nil
	modify(SQD)
	if !slices.Equal(x.events, []Event{EventDrained}) {
		t.Errorf("idle: events %v", x.events)
	}
	if a := x.q.Attr(); a.SQPSN != psn(4) {
		t.Errorf("SQPSN %#x, want %#x", a.SQPSN, psn(4))
	}
}

// Modify to ERR flushes in order, also what was not signaled; RESET forgets.
func TestFlushSends(t *testing.T) {
	x := newSource(t, RC, func(c *Config, _ *Attr) { c.SignalAll = false })
	for range 20 {
		x.post(OpWrite, 300, 0)
	}
	x.sends(7)
	if err := x.q.Modify(Attr{State: Err}, MaskState); err != nil {
		t.Fatal(err)
	}
	x.wantDone(0, slices.Repeat([]Status{WRFlushed}, 20)...)
	x.wantSent("")
	x.ack(1)
	x.post(OpWrite, 1, 0)
	x.wantDone(20, WRFlushed)
	if x.q.Deadline() != 0 {
		t.Error("a deadline in ERR")
	}

	x = newSource(t, RC)
	x.post(OpWrite, 1, 0)
	x.sends(1)
	if err := x.q.Modify(Attr{State: Reset}, MaskState); err != nil {
		t.Fatal(err)
	}
	x.wantDone(0)
	if x.q.Deadline() != 0 {
		t.Error("a deadline in RESET")
	}
}
