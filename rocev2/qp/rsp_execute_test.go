// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

type dg = rocev2.Datagram

func TestWriteOnly(t *testing.T) {
	x := newTarget(t, verbs.RC)
	data := pattern(1, 101)
	x.next(dg{Opcode: rocev2.RCWriteOnly, VA: dataBase + 8, RKey: dataKey, DMALen: 101, AckReq: true, Payload: data})
	x.wantOut(ackOf(0, 1))
	if got := x.m.regions[dataKey].data[8:109]; !bytes.Equal(got, data) {
		t.Errorf("memory holds %x, want %x", got, data)
	}
	x.wantEvents(verbs.EventQPEstablished)
	x.wantDone()
}

func TestSendInThree(t *testing.T) {
	x := newTarget(t, verbs.RC)
	x.postRecv(0, 2, 1024)
	data := pattern(2, 256+256+10)
	x.next(dg{Opcode: rocev2.RCSendFirst, Payload: data[:256]})
	x.next(dg{Opcode: rocev2.RCSendMiddle, Payload: data[256:512]})
	x.wantOut()
	x.next(dg{Opcode: rocev2.RCSendLastImm, Imm: 0xCAFE, Solicited: true, AckReq: true, Payload: data[512:]})
	x.wantOut(ackOf(2, 1))
	x.wantDone(verbs.Completion{WRID: 0, Op: verbs.OpRecv, Bytes: 522, HasImm: true, Imm: 0xCAFE, Solicited: true})
	if got := x.m.regions[bufKey].data[:522]; !bytes.Equal(got, data) {
		t.Errorf("the buffer holds %x, want %x", got, data)
	}
}

func TestReadAndAtomic(t *testing.T) {
	x := newTarget(t, verbs.RC)
	data := pattern(3, 600)
	copy(x.m.regions[dataKey].data, data)
	binary.NativeEndian.PutUint64(x.m.regions[dataKey].data[1024:], 40)
	x.next(dg{Opcode: rocev2.RCReadRequest, VA: dataBase, RKey: dataKey, DMALen: 600})
	x.next(dg{Opcode: rocev2.RCFetchAdd, VA: dataBase + 1024, RKey: dataKey, SwapAdd: 2})
	x.next(dg{Opcode: rocev2.RCCompareSwap, VA: dataBase + 1024, RKey: dataKey, Compare: 42, SwapAdd: 77})
	x.next(dg{Opcode: rocev2.RCReadRequest, AckReq: true})
	x.wantOut(
		said{Op: rocev2.RCReadResponseFirst, PSN: psn(0), Syndrome: noCredits, MSN: 1, Data: string(data[:256])},
		said{Op: rocev2.RCReadResponseMiddle, PSN: psn(1), Data: string(data[256:512])},
		said{Op: rocev2.RCReadResponseLast, PSN: psn(2), Syndrome: noCredits, MSN: 1, Data: string(data[512:])},
		said{Op: rocev2.RCAtomicAck, PSN: psn(3), Syndrome: noCredits, MSN: 2, Original: 40},
		said{Op: rocev2.RCAtomicAck, PSN: psn(4), Syndrome: noCredits, MSN: 3, Original: 42},
		said{Op: rocev2.RCReadResponseOnly, PSN: psn(5), Syndrome: noCredits, MSN: 4},
	)
	if got := binary.NativeEndian.Uint64(x.m.regions[dataKey].data[1024:]); got != 77 {
		t.Errorf("the word is %d, want 77", got)
	}
}

// SEND with invalidate takes effect before its completion.
func TestSendInvalidate(t *testing.T) {
	x := newTarget(t, verbs.RC)
	x.postRecv(1, 2, 64)
	x.next(dg{Opcode: rocev2.RCSendOnlyInv, RKey: dataKey, AckReq: true, Payload: pattern(0, 5)})
	x.wantOut(ackOf(0, 1))
	x.wantDone(verbs.Completion{WRID: 1, Op: verbs.OpRecv, Bytes: 5, HasInv: true, InvKey: dataKey})
	x.next(write(wo, dataBase, 4, 4))
	x.wantOut(nakOf(1, 1, rocev2.NAKRemoteAccess))
}

// Zero bytes touch nothing and need no key (IBTA 9.7.4.1).
func TestZeroLength(t *testing.T) {
	x := newTarget(t, verbs.RC)
	x.postRecv(1, 2, 0)
	x.next(dg{Opcode: wo, VA: 1, RKey: 0xBAD})
	x.next(dg{Opcode: rocev2.RCWriteOnlyImm, VA: 1, RKey: 0xBAD, Imm: 6})
	x.next(dg{Opcode: so, AckReq: true})
	x.next(dg{Opcode: rocev2.RCReadRequest, VA: 1, RKey: 0xBAD})
	x.wantOut(ackOf(2, 3), said{Op: rocev2.RCReadResponseOnly, PSN: psn(3), Syndrome: noCredits, MSN: 4})
	x.wantDone(verbs.Completion{WRID: 1, Op: verbs.OpRecvWriteImm, HasImm: true, Imm: 6}, verbs.Completion{WRID: 2, Op: verbs.OpRecv})
}

// The memory is told of each WRITE once, when its last packet was written.
func TestEndWrite(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
		x := newTarget(t, typ)
		x.postRecv(1, 1, 0)
		first, last, only := write(wf, dataBase+8, 260, 256), write(wl, 0, 0, 4), write(rocev2.RCWriteOnlyImm, dataBase+1000, 4, 4)
		if typ == verbs.UC {
			first.Opcode, last.Opcode, only.Opcode = ucWF, ucWL, rocev2.UCWriteOnlyImm
		}
		only.Imm = 6
		x.next(first)
		if len(x.m.ended) != 0 {
			t.Errorf("%v: %+v after the first packet", typ, x.m.ended)
		}
		x.next(last)
		x.next(only)
		none := only
		none.VA, none.DMALen, none.Payload, none.Opcode = dataBase, 0, nil, first.Opcode-wf+wo
		x.next(none)
		bad := only
		bad.RKey, bad.Opcode = 0xBAD, none.Opcode
		x.next(bad)
		want := []mem.Arrival{
			{QPN: x.q.QPN(), RKey: dataKey, Addr: dataBase + 8, Len: 260},
			{QPN: x.q.QPN(), RKey: dataKey, Addr: dataBase + 1000, Len: 4, Imm: 6, HasImm: true},
		}
		if !slices.Equal(x.m.ended, want) {
			t.Errorf("%v: %+v, want %+v", typ, x.m.ended, want)
		}
	}
}
