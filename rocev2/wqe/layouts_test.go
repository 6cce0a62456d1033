// SPDX-License-Identifier: Apache-2.0

package wqe_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// Each layout with a value in every field, byte for byte.
func TestLayoutBytes(t *testing.T) {
	b := func(n int) []byte { return make([]byte, n) }
	send := wqe.Wqe(b(wqe.WqeBytes))
	send.SetOpcode(wqe.WqeOpcodeWriteImm)
	send.SetSignaled(true)
	send.SetSolicited(true)
	send.SetFence(true)
	send.SetInline(true)
	send.SetCount(0x1234)
	send.SetImmediate(0x89abcdef)
	send.SetWrId(0x1122334455667788)
	rdma := wqe.WqeRdma(send)
	rdma.SetRemoteAddr(0xa1a2a3a4a5a6a7a8)
	rdma.SetRkey(0xc1c2c3c4)
	rdma.SetCompare(0x0102030405060708)
	rdma.SetSwapAdd(0x1112131415161718)
	ud := wqe.WqeUd(b(wqe.WqeUdBytes))
	ud.SetAh(7)
	ud.SetDestQpn(0xabcdef)
	ud.SetDestQkey(0x80010000)
	bind := wqe.WqeBind(b(wqe.WqeBindBytes))
	bind.SetBindAddr(1)
	bind.SetBindBytes(2)
	bind.SetWindowKey(0x33333333)
	bind.SetRegionKey(0x44444444)
	bind.SetNewKey(0x55)
	bind.SetAllowRead(true)
	bind.SetZeroBased(true)
	recv := wqe.WqeRecv(b(wqe.WqeRecvBytes))
	recv.SetWrId(9)
	recv.SetCount(3)
	sge := wqe.Sge(b(wqe.SgeBytes))
	sge.SetAddr(0x0807060504030201)
	sge.SetLength(0x0c0b0a09)
	sge.SetLkey(0x100f0e0d)
	cqe := wqe.Cqe(b(wqe.CqeBytes))
	cqe.SetWrId(0x0807060504030201)
	cqe.SetLength(0x0c0b0a09)
	cqe.SetImmediate(0x100f0e0d)
	cqe.SetQpn(0xaaaaaa)
	cqe.SetStatus(wqe.CqeStatusRemoteAccess)
	cqe.SetSrcQp(0xbbbbbb)
	cqe.SetOpcode(wqe.CqeOpcodeRecv)
	cqe.SetHasImm(true)
	cqe.SetHasGrh(true)
	cqe.SetOwner(true)
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"wqe": {send, `05 0f 34 12 ef cd ab 89  88 77 66 55 44 33 22 11
			a8 a7 a6 a5 a4 a3 a2 a1  c4 c3 c2 c1 00 00 00 00  08 07 06 05 04 03 02 01  18 17 16 15 14 13 12 11` + strings.Repeat("00", 16)},
		"wqe_ud":   {ud, strings.Repeat("00", 16) + `07 00 00 00 00 00 00 00  ef cd ab 00 00 00 01 80` + strings.Repeat("00", 32)},
		"wqe_bind": {bind, strings.Repeat("00", 16) + `01 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00  33 33 33 33 44 44 44 44  55 0a 00 00 00 00 00 00` + strings.Repeat("00", 16)},
		"wqe_recv": {recv, `09 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00`},
		"sge":      {sge, `01 02 03 04 05 06 07 08  09 0a 0b 0c 0d 0e 0f 10`},
		"cqe":      {cqe, `01 02 03 04 05 06 07 08  09 0a 0b 0c 0d 0e 0f 10  aa aa aa 09 bb bb bb 0b  0a 00 00 00 00 00 00 80`},
	} {
		if want := testkit.Unhex(t, c.want); !bytes.Equal(c.got, want) {
			t.Errorf("%s\n% x, want\n% x", name, c.got, want)
		}
	}
}

// A field reads what was written, and its setter keeps all other bits.
func TestLayoutFields(t *testing.T) {
	for name, typ := range map[string]reflect.Type{
		"wqe": reflect.TypeFor[wqe.Wqe](), "rdma": reflect.TypeFor[wqe.WqeRdma](), "ud": reflect.TypeFor[wqe.WqeUd](), "bind": reflect.TypeFor[wqe.WqeBind](),
		"recv": reflect.TypeFor[wqe.WqeRecv](), "sge": reflect.TypeFor[wqe.Sge](), "cqe": reflect.TypeFor[wqe.Cqe](),
	} {
		fields := 0
		for i := range typ.NumMethod() {
			field, isSetter := strings.CutPrefix(typ.Method(i).Name, "Set")
			if !isSetter {
				continue
			}
			fields++
			for _, fill := range []byte{0, 0xff} {
				raw := bytes.Repeat([]byte{fill}, 64)
				v := reflect.ValueOf(raw).Convert(typ)
				get, set := v.MethodByName(field), v.MethodByName("Set"+field)
				before := get.Call(nil)[0]
				var other reflect.Value
				if before.Kind() == reflect.Bool {
					other = reflect.ValueOf(!before.Bool())
				} else {
					other = reflect.ValueOf(^before.Uint() & 1).Convert(before.Type())
				}
				set.Call([]reflect.Value{other})
				if got := get.Call(nil)[0]; !got.Equal(other) {
					t.Errorf("%s.%s is %v, want %v", name, field, got, other)
				}
				set.Call([]reflect.Value{before})
				if !bytes.Equal(raw, bytes.Repeat([]byte{fill}, 64)) {
					t.Errorf("%s.%s changed other bits: % x", name, field, raw)
				}
			}
		}
		if fields == 0 {
			t.Errorf("%s has no fields", name)
		}
	}
}

// Numbers of operations and statuses are those of package verbs, of which the software NIC takes
// them.
func TestNumbersOfVerbs(t *testing.T) {
	for op, n := range map[verbs.Op]int{
		verbs.OpSend: wqe.WqeOpcodeSend, verbs.OpSendImm: wqe.WqeOpcodeSendImm, verbs.OpSendInv: wqe.WqeOpcodeSendInv,
		verbs.OpWrite: wqe.WqeOpcodeWrite, verbs.OpWriteImm: wqe.WqeOpcodeWriteImm, verbs.OpRead: wqe.WqeOpcodeRead,
		verbs.OpCompareSwap: wqe.WqeOpcodeCompareSwap, verbs.OpFetchAdd: wqe.WqeOpcodeFetchAdd, verbs.OpLocalInv: wqe.WqeOpcodeLocalInv,
		verbs.OpBindWindow: wqe.WqeOpcodeBindWindow, verbs.OpRecv: wqe.CqeOpcodeRecv, verbs.OpRecvWriteImm: wqe.CqeOpcodeRecvWriteImm,
	} {
		if int(op) != n {
			t.Errorf("operation %d has the number %d", op, n)
		}
	}
	for s, n := range []int{
		wqe.CqeStatusSuccess, wqe.CqeStatusLocalLength, wqe.CqeStatusLocalQpOperation, wqe.CqeStatusLocalProtection, wqe.CqeStatusFlushed,
		wqe.CqeStatusBindError, wqe.CqeStatusBadResponse, wqe.CqeStatusLocalAccess, wqe.CqeStatusRemoteInvalidRequest, wqe.CqeStatusRemoteAccess,
		wqe.CqeStatusRemoteOperation, wqe.CqeStatusRetryExceeded, wqe.CqeStatusRnrRetryExceeded, wqe.CqeStatusRemoteAborted, wqe.CqeStatusFatal,
	} {
		if s != n {
			t.Errorf("status %v has the number %d", verbs.Status(s), n)
		}
	}
	if wqe.CqeStatusFatal != int(verbs.StatusFatal) {
		t.Error("the statuses are not those of verbs")
	}
}
