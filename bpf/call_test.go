// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
)

// The programs that are only called have one convention: operation, number of slots and
// eight zeros; all ones for what they do not know, else the number of slots done.
func TestCallConvention(t *testing.T) {
	l := newLab(t)
	const invalid, engineSync = 0xffffffff, 0x100
	for _, p := range []struct {
		name string
		prog *ebpf.Program
		op   uint32 // operation that the program knows
		not  uint32 // operation that the other program knows
	}{
		{"agent call", l.objs.SoftroceAgentCall, bpf.AgentRead, engineSync},
		{"engine sync", l.objs.SoftroceEngineSync, engineSync, bpf.AgentRead},
	} {
		for _, c := range []struct {
			name      string
			op, count uint32
			size      int
			want      uint32
		}{
			{"no slots", p.op, 0, 16, 0},
			{"a short header", p.op, 0, 15, invalid},
			{"the other's operation", p.not, 0, 16, invalid},
			{"no operation", 0, 0, 16, invalid},
		} {
			var data [16]byte
			binary.NativeEndian.PutUint32(data[0:], c.op)
			binary.NativeEndian.PutUint32(data[4:], c.count)
			got, err := p.prog.Run(&ebpf.RunOptions{Data: data[:c.size]})
			if err != nil || got != c.want {
				t.Errorf("%s, %s: returned %#x, want %#x (%v)", p.name, c.name, got, c.want, err)
			}
		}
	}
}
