// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"bytes"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mem"
)

// inverse writes the inverse of each bit.
type inverse struct{}

func (inverse) Put(dst, src []byte) {
	for i := range src {
		dst[i] = ^src[i]
	}
}

// A transform gets contiguous memory itself, and other memory in the place of the packet. It leaves memory as
// it is, and is not called for an access that is refused.
func TestTransform(t *testing.T) {
	table := newTable(t)
	pd := table.AllocPD()
	b := make([]byte, 4096)
	arena, err := newArena(make([]byte, 4096))
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("some data "), 40)
	for name, s := range map[string]Spec{
		"contiguous": {PD: pd, Host: b, Access: everything},
		"paged":      {PD: pd, Pages: &Pages{Backend: arena, PageSize: 2048, Addrs: []uint64{2048, 0}, Length: 4096}, VA: 0x1000, Access: everything},
	} {
		r := register(t, table, s)
		at := r.VA() + 1900 // crosses the pages
		wantFault(t, name+": write", table.WriteLocal(pd, r.LKey(), at, data), mem.FaultNone)
		for way, read := range map[string]func(pd uint32, at uint64, dst []byte) mem.Fault{
			"local": func(pd uint32, at uint64, dst []byte) mem.Fault {
				return table.TransformLocal(pd, r.LKey(), at, dst, inverse{})
			},
			"remote": func(pd uint32, at uint64, dst []byte) mem.Fault {
				return table.TransformRemote(pd, 1, r.RKey(), at, dst, inverse{})
			},
		} {
			got := make([]byte, len(data))
			wantFault(t, name+", "+way, read(pd, at, got), mem.FaultNone)
			inverse{}.Put(got, got)
			if !bytes.Equal(got, data) {
				t.Errorf("%s, %s: other data", name, way)
			}
			clear(got)
			wantFault(t, name+", "+way+": other domain", read(pd+1, at, got), mem.FaultPD)
			wantFault(t, name+", "+way+": beyond the end", read(pd, r.VA()+4000, got), mem.FaultRange)
			if !bytes.Equal(got, make([]byte, len(got))) {
				t.Errorf("%s, %s: a refused access wrote to the packet", name, way)
			}
		}
		back := make([]byte, len(data))
		wantFault(t, name+": read", table.ReadLocal(pd, r.LKey(), at, back), mem.FaultNone)
		if !bytes.Equal(back, data) {
			t.Errorf("%s: memory has changed", name)
		}
	}
}
