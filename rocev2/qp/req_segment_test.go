// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func (x *source) wantAsked(want ...asked) {
	x.t.Helper()
	if got := x.sends(1000); !slices.Equal(got, want) {
		x.t.Fatalf("sent:\n got %+v\nwant %+v", got, want)
	}
}

// Messages become packets by operation, place and length; the last packet requests an ACK.
// PSNs wrap in all cases.
func TestSegments(t *testing.T) {
	data := string(pattern(3, 1<<16))
	for _, c := range []struct {
		name string
		typ  verbs.QPType
		op   verbs.Op
		n    uint32
		want []asked
	}{
		{"SEND of nothing", verbs.RC, verbs.OpSend, 0, []asked{{Op: rocev2.RCSendOnly, Ack: true}}},
		{"SEND of one packet", verbs.RC, verbs.OpSend, 256, []asked{{Op: rocev2.RCSendOnly, Ack: true, Data: data[:256]}}},
		{"SEND of three", verbs.RC, verbs.OpSend, 513, []asked{
			{Op: rocev2.RCSendFirst, Data: data[:256]},
			{Op: rocev2.RCSendMiddle, Data: data[256:512]},
			{Op: rocev2.RCSendLast, Ack: true, Data: data[512:513]}}},
		{"SEND with immediate", verbs.RC, verbs.OpSendImm, 257, []asked{
			{Op: rocev2.RCSendFirst, Data: data[:256]},
			{Op: rocev2.RCSendLastImm, Ack: true, Data: data[256:257]}}},
		{"SEND with invalidate", verbs.RC, verbs.OpSendInv, 1, []asked{{Op: rocev2.RCSendOnlyInv, Ack: true, Data: data[:1]}}},
		{"long SEND with invalidate", verbs.RC, verbs.OpSendInv, 512, []asked{
			{Op: rocev2.RCSendFirst, Data: data[:256]},
			{Op: rocev2.RCSendLastInv, Ack: true, Data: data[256:512]}}},
		{"WRITE", verbs.RC, verbs.OpWrite, 600, []asked{
			{Op: rocev2.RCWriteFirst, VA: 0x8000, Len: 600, Data: data[:256]},
			{Op: rocev2.RCWriteMiddle, Data: data[256:512]},
			{Op: rocev2.RCWriteLast, Ack: true, Data: data[512:600]}}},
		{"WRITE of nothing", verbs.RC, verbs.OpWrite, 0, []asked{{Op: rocev2.RCWriteOnly, VA: 0x8000, Ack: true}}},
		{"WRITE with immediate", verbs.RC, verbs.OpWriteImm, 300, []asked{
			{Op: rocev2.RCWriteFirst, VA: 0x8000, Len: 300, Data: data[:256]},
			{Op: rocev2.RCWriteLastImm, Ack: true, Data: data[256:300]}}},
		{"short WRITE with immediate", verbs.RC, verbs.OpWriteImm, 3, []asked{
			{Op: rocev2.RCWriteOnlyImm, VA: 0x8000, Len: 3, Ack: true, Data: data[:3]}}},
		{"READ", verbs.RC, verbs.OpRead, 1000, []asked{{Op: rocev2.RCReadRequest, VA: 0x8000, Len: 1000, Ack: true}}},
		{"COMPARE_SWAP", verbs.RC, verbs.OpCompareSwap, 8, []asked{{Op: rocev2.RCCompareSwap, VA: 0x8000, Ack: true}}},
		{"FETCH_ADD", verbs.RC, verbs.OpFetchAdd, 8, []asked{{Op: rocev2.RCFetchAdd, VA: 0x8000, Ack: true}}},
		{"SEND on UC", verbs.UC, verbs.OpSend, 513, []asked{
			{Op: rocev2.UCSendFirst, Data: data[:256]},
			{Op: rocev2.UCSendMiddle, Data: data[256:512]},
			{Op: rocev2.UCSendLast, Data: data[512:513]}}},
		{"SEND with immediate on UC", verbs.UC, verbs.OpSendImm, 0, []asked{{Op: rocev2.UCSendOnlyImm}}},
		{"WRITE with immediate on UC", verbs.UC, verbs.OpWriteImm, 257, []asked{
			{Op: rocev2.UCWriteFirst, VA: 0x8000, Len: 257, Data: data[:256]},
			{Op: rocev2.UCWriteLastImm, Data: data[256:257]}}},
		{"SEND on UD", verbs.UD, verbs.OpSend, 256, []asked{{Op: rocev2.UDSendOnly, Data: data[:256]}}},
		{"SEND with immediate on UD", verbs.UD, verbs.OpSendImm, 0, []asked{{Op: rocev2.UDSendOnlyImm}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newSource(t, c.typ)
			x.post(c.op, c.n, 0)
			for i := range c.want {
				c.want[i].PSN = psn(i)
			}
			x.wantAsked(c.want...)
			switch {
			case c.typ != verbs.RC:
				x.wantDone(0, verbs.StatusSuccess)
			case c.op == verbs.OpRead:
				x.wantDone(0)
				x.response(0, 0, 4, 1000)
				x.wantDone(0, verbs.StatusSuccess)
			case c.op == verbs.OpCompareSwap || c.op == verbs.OpFetchAdd:
				x.atomic(0, 5)
				x.wantDone(0, verbs.StatusSuccess)
			default:
				x.wantDone(0)
				x.ack(len(c.want) - 1)
				x.wantDone(0, verbs.StatusSuccess)
			}
			if d := x.q.Deadline(); d != 0 {
				t.Errorf("a deadline at %d with nothing outstanding", d)
			}
		})
	}
}

// The headers that wantAsked does not show.
func TestHeaders(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpSendImm, 4, verbs.Solicited)
	x.post(verbs.OpSendInv, 600, verbs.Solicited)
	x.post(verbs.OpCompareSwap, 8, 0, func(wr *verbs.SendWR) { wr.Compare, wr.Swap = 11, 12 })
	x.post(verbs.OpFetchAdd, 8, 0, func(wr *verbs.SendWR) { wr.Add = 13 })
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

	x = newSource(t, verbs.UD)
	x.post(verbs.OpSend, 4, 0)
	x.post(verbs.OpSend, 4, 0, func(wr *verbs.SendWR) { wr.RemoteQKey, wr.AH = 1<<31, testAH(7) })
	for _, key := range []uint32{0x55, 0x1234} { // the second: the queue pair's own (IBTA 10.2)
		if !x.q.NextData(x.now, &x.out) || !x.out.Fill(make([]byte, 4)) {
			t.Fatal("nothing is sent")
		}
		if x.out.QKey != key || x.out.DestQP != peerQPN || x.out.SrcQP != sourceQPN {
			t.Errorf("UD: %+v", x.out.Datagram)
		}
	}
	if x.out.AH != testAH(7) {
		t.Error("UD: the address handle is not handed through")
	}
}

// At first the path is unknown: one initial window is sent, and ACKs increase it.
func TestFirstWindow(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpWrite, 1000*256, 0)
	if got := len(x.sends(1000)); got != initialWindow {
		t.Fatalf("%d packets before the first answer, want %d", got, initialWindow)
	}
	x.ack(initialWindow - 1)
	if got := len(x.sends(1000)); got != 2*initialWindow {
		t.Errorf("%d packets after the first window arrived, want %d", got, 2*initialWindow)
	}
}

// An ACK is requested at least every 64 packets: rxe acknowledges no others.
func TestAckRequests(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.q.req.window.size = maxWindow
	x.post(verbs.OpWrite, 200*256, 0)
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
