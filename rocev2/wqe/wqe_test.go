// SPDX-License-Identifier: Apache-2.0

package wqe_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

func drawSGL(t *rapid.T, n int) []verbs.SGE {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) verbs.SGE {
		return verbs.SGE{Addr: rapid.Uint64().Draw(t, "addr"), Len: rapid.Uint32().Draw(t, "len"), LKey: rapid.Uint32().Draw(t, "lkey")}
	}), 0, n).Draw(t, "sgl")
}

// OwnerAt and OwnerMask name the bit owner, and no other.
func TestOwner(t *testing.T) {
	for _, owner := range []bool{false, true} {
		var b [wqe.CqeBytes]byte
		wqe.EncodeCompletion(b[:], &verbs.Completion{WRID: 1<<64 - 1, QPN: 1<<24 - 1, Bytes: 1<<32 - 1, HasImm: true, Imm: 1<<32 - 1, SrcQP: 1<<24 - 1})
		without := b
		wqe.Cqe(b[:]).SetOwner(owner)
		if w := binary.NativeEndian.Uint64(b[wqe.OwnerAt:]); w&wqe.OwnerMask != 0 != owner {
			t.Errorf("owner %v: the word is %#x", owner, w)
		}
		w := binary.NativeEndian.Uint64(b[wqe.OwnerAt:])
		binary.NativeEndian.PutUint64(b[wqe.OwnerAt:], w&^wqe.OwnerMask)
		if b != without {
			t.Errorf("owner %v: OwnerMask has other bits too", owner)
		}
	}
}

// drawSend draws a work request that has only the fields of its operation.
func drawSend(t *rapid.T, service verbs.QPType) (wr verbs.SendWR, ah uint32) {
	ops := []verbs.Op{}
	for op := verbs.OpSend; op <= verbs.OpBindWindow; op++ {
		if service.Has(op) {
			ops = append(ops, op)
		}
	}
	if service == verbs.RC {
		ops = append(ops, verbs.OpWriteNotify) // in out-of-order mode
	}
	wr = verbs.SendWR{
		ID: rapid.Uint64().Draw(t, "id"), Op: rapid.SampledFrom(ops).Draw(t, "op"),
		Flags: verbs.Flags(rapid.IntRange(0, 15).Draw(t, "flags")),
	}
	if wr.Flags&verbs.Inline != 0 {
		wr.Data = rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "data")
	} else {
		wr.SGL = drawSGL(t, 6)
	}
	imm := rapid.Uint32().Draw(t, "imm")
	switch wr.Op {
	case verbs.OpSendImm, verbs.OpWriteImm, verbs.OpWriteNotify:
		wr.Imm = imm
	case verbs.OpSendInv, verbs.OpLocalInv:
		wr.InvKey = imm
	}
	switch wr.Op {
	case verbs.OpWrite, verbs.OpWriteImm, verbs.OpWriteNotify, verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd:
		wr.RemoteAddr, wr.RKey = rapid.Uint64().Draw(t, "va"), rapid.Uint32().Draw(t, "rkey")
	}
	switch wr.Op {
	case verbs.OpCompareSwap:
		wr.Compare, wr.Swap = rapid.Uint64().Draw(t, "compare"), rapid.Uint64().Draw(t, "swap")
	case verbs.OpFetchAdd:
		wr.Add = rapid.Uint64().Draw(t, "add")
	case verbs.OpBindWindow:
		wr.Bind = verbs.Bind{
			Window: rapid.Uint32().Draw(t, "window"), Region: rapid.Uint32().Draw(t, "region"), Addr: rapid.Uint64().Draw(t, "at"),
			Length: rapid.Uint64().Draw(t, "length"), NewKey: rapid.Byte().Draw(t, "new"),
			Access: verbs.Access(rapid.Byte().Draw(t, "access")) & (verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic | verbs.AccessZeroBased),
		}
	}
	if service == verbs.UD {
		ah, wr.RemoteQPN, wr.RemoteQKey = rapid.Uint32().Draw(t, "ah"), rapid.Uint32Range(0, 1<<24-1).Draw(t, "qpn"), rapid.Uint32().Draw(t, "qkey")
	}
	return wr, ah
}

// same clears what a decoder fills in beyond the operation: Imm and InvKey share a field of the
// entry, as Swap and Add do.
func same(wr verbs.SendWR) verbs.SendWR {
	switch wr.Op {
	case verbs.OpSendInv, verbs.OpLocalInv:
		wr.Imm = 0
	default:
		wr.InvKey = 0
	}
	if wr.Op == verbs.OpFetchAdd {
		wr.Swap = 0
	} else {
		wr.Add = 0
	}
	if len(wr.SGL) == 0 {
		wr.SGL = nil
	}
	if len(wr.Data) == 0 {
		wr.Data = nil
	}
	return wr
}

// A work request is decoded as it was encoded, whatever was in the entry before.
func TestSendRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		service := rapid.SampledFrom([]verbs.QPType{verbs.RC, verbs.UC, verbs.UD}).Draw(t, "service")
		wr, ah := drawSend(t, service)
		entry := bytes.Repeat([]byte{rapid.Byte().Draw(t, "before")}, wqe.SendBytes(len(wr.Data), len(wr.SGL)))
		if err := wqe.EncodeSend(entry, service, &wr, ah); err != nil {
			t.Fatal(err)
		}
		got := verbs.SendWR{SGL: make([]verbs.SGE, 3)}
		gotAH, ok := wqe.DecodeSend(entry, service, &got)
		if !ok || gotAH != ah || !reflect.DeepEqual(same(got), same(wr)) {
			t.Fatalf("%v, handle %d of %d:\n%+v, want\n%+v", ok, gotAH, ah, same(got), same(wr))
		}
	})
}

func TestRecvRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wr := verbs.RecvWR{ID: rapid.Uint64().Draw(t, "id"), SGL: drawSGL(t, 6)}
		entry := bytes.Repeat([]byte{rapid.Byte().Draw(t, "before")}, wqe.RecvBytes(len(wr.SGL)))
		if err := wqe.EncodeRecv(entry, &wr); err != nil {
			t.Fatal(err)
		}
		got := verbs.RecvWR{SGL: make([]verbs.SGE, 3)}
		if !wqe.DecodeRecv(entry, &got) || got.ID != wr.ID || len(got.SGL) != len(wr.SGL) ||
			len(wr.SGL) > 0 && !reflect.DeepEqual(got.SGL, wr.SGL) {
			t.Fatalf("%+v, want %+v", got, wr)
		}
	})
}

// Completions keep what verbs define for their status.
func TestCompletionRoundTrip(t *testing.T) {
	for _, c := range []verbs.Completion{
		{WRID: 1<<63 + 5, QPN: 0x812345, Op: verbs.OpSend},
		{WRID: 2, QPN: 1, Op: verbs.OpRecv, Bytes: 1 << 31, HasImm: true, Imm: 7, Solicited: true, SrcQP: 0xabcdef, HasGRH: true, IPv4: true},
		{WRID: 3, QPN: 1, Op: verbs.OpRecv, HasInv: true, InvKey: 9},
		{WRID: 4, QPN: 1, Status: verbs.StatusRemoteAccess, Solicited: true},
	} {
		entry := bytes.Repeat([]byte{0xff}, wqe.CqeBytes)
		wqe.EncodeCompletion(entry, &c)
		if got := wqe.DecodeCompletion(entry); got != c {
			t.Errorf("%+v, want %+v", got, c)
		}
	}
}

// Entries that are too short, and entries that claim more than they have.
func TestRefuses(t *testing.T) {
	entry := make([]byte, wqe.SendBytes(32, 2))
	list := make([]verbs.SGE, 3)
	for _, c := range []struct {
		wr   verbs.SendWR
		want error
	}{
		{verbs.SendWR{Op: verbs.OpSend, SGL: list}, verbs.ErrSGL},
		{verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Inline, Data: make([]byte, 33)}, verbs.ErrInline},
		{verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Inline, SGL: list[:1]}, verbs.ErrInline},
	} {
		if err := wqe.EncodeSend(entry, verbs.RC, &c.wr, 0); !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
	if err := wqe.EncodeRecv(entry[:wqe.RecvBytes(2)], &verbs.RecvWR{SGL: list}); !errors.Is(err, verbs.ErrSGL) {
		t.Error(err)
	}
	for name, change := range map[string]func(wqe.Wqe){
		"operation 0":  func(w wqe.Wqe) { w.SetOpcode(0) },
		"operation 11": func(w wqe.Wqe) { w.SetOpcode(wqe.WqeOpcodeBindWindow + 1) },
		"elements":     func(w wqe.Wqe) { w.SetCount(3) },
		"inline":       func(w wqe.Wqe) { w.SetInline(true); w.SetCount(33) },
	} {
		wr := verbs.SendWR{ID: 5, Op: verbs.OpSend}
		if err := wqe.EncodeSend(entry, verbs.RC, &wr, 0); err != nil {
			t.Fatal(err)
		}
		change(entry)
		if _, ok := wqe.DecodeSend(entry, verbs.RC, &wr); ok || wr.ID != 5 {
			t.Errorf("%s: %v, ID %d", name, ok, wr.ID)
		}
	}
	recv := make([]byte, wqe.RecvBytes(2))
	wqe.WqeRecv(recv).SetCount(3)
	if wqe.DecodeRecv(recv, &verbs.RecvWR{}) {
		t.Error("a receive with more elements than room")
	}
}

// Whatever the bytes, the decoder stays within the entry and does not panic.
func FuzzDecode(f *testing.F) {
	f.Add(make([]byte, wqe.WqeBytes), uint8(verbs.RC))
	f.Add(bytes.Repeat([]byte{0xff}, 256), uint8(verbs.UD))
	f.Fuzz(func(t *testing.T, b []byte, service uint8) {
		if len(b) < wqe.WqeBytes {
			return
		}
		var s verbs.SendWR
		if _, ok := wqe.DecodeSend(b, verbs.QPType(service), &s); ok {
			if len(s.Data)+len(s.SGL)*wqe.SgeBytes > len(b)-wqe.WqeBytes {
				t.Fatalf("%d bytes and %d elements in an entry of %d", len(s.Data), len(s.SGL), len(b))
			}
		}
		var r verbs.RecvWR
		wqe.DecodeRecv(b, &r)
		wqe.DecodeCompletion(b)
	})
}
