// SPDX-License-Identifier: Apache-2.0

package regs_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/internal/testkit"
)

// Each layout with a value in every field, byte for byte.
func TestLayoutBytes(t *testing.T) {
	b := func(n int) []byte { return make([]byte, n) }
	ah := regs.AddressHandle(b(regs.AddressHandleBytes))
	ah.SetSrcAddr(0x0807060504030201)
	ah.SetDstAddrLow(0x1817161514131211)
	ah.SetMac(0x020000000001)
	ah.SetNode(0x7ff)
	ah.SetPort(2)
	ah.SetTclass(0x20)
	ah.SetHopLimit(64)
	ah.SetAhPd(5)
	ah.SetValid(true)
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"address_handle": {ah, `01 02 03 04 05 06 07 08` + strings.Repeat("00", 16) + `11 12 13 14 15 16 17 18  01 00 00 00 00 02 00 00  ff 27 20 40 05 00 00 80` + strings.Repeat("00", 16)},
	} {
		if want := testkit.Unhex(t, c.want); !bytes.Equal(c.got, want) {
			t.Errorf("%s\n% x, want\n% x", name, c.got, want)
		}
	}
}

// A field reads what was written, and its setter keeps all other bits.
func TestLayoutFields(t *testing.T) {
	for name, typ := range map[string]reflect.Type{
		"ah": reflect.TypeFor[regs.AddressHandle](),
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
