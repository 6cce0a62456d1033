// SPDX-License-Identifier: Apache-2.0

package card

import (
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

func TestClearCounters(t *testing.T) {
	m := New()
	for i := range regs.PortsCount {
		m.Put(regs.PortsBase+uint64(i)*regs.PortsStride+regs.PortsRxBytesOffset+4, 7)
	}
	regs.PortsOf(m, 1).SetCommand(regs.PortsCommand(0).WithClearCounters(true))
	for i := range regs.PortsCount {
		want := uint64(7 << 32)
		if i == 1 {
			want = 0
		}
		if got := regs.PortsOf(m, i).RxBytes(); got != want {
			t.Errorf("port %d: %#x, want %#x", i, got, want)
		}
	}
}

// After an access that is not possible, reads return all ones, and the error stays.
func TestFaults(t *testing.T) {
	for name, access := range map[string]func(m *Model){
		"misaligned": func(m *Model) { m.R64(4) }, "odd": func(m *Model) { m.W32(2, 1) }, "beyond": func(m *Model) { m.R32(m.Size()) },
		"across the end": func(m *Model) { m.W64(m.Size()-4, 1) }, "wraps": func(m *Model) { m.R64(^uint64(7)) },
	} {
		m := New()
		access(m)
		if m.Err() == nil || m.R32(0) != ^uint32(0) || m.R64(0) != ^uint64(0) {
			t.Errorf("%s: error %v, magic %#x", name, m.Err(), m.R32(0))
		}
	}
}
