// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"unsafe"
)

// Prefetching goes by whole cache lines. What is needed together lies in few of them,
// and where prefetch_amd64.s looks for it.
func TestLines(t *testing.T) {
	const line = 64
	for _, x := range []struct {
		what       string
		size, want uintptr
	}{
		{"packet", unsafe.Sizeof(packet{}), line},
		{"packetMeta", unsafe.Sizeof(packetMeta{}), line},
		{"chunk", unsafe.Sizeof(chunk{}), line},
		{"port", unsafe.Sizeof(port{}), 2 * line},
		{"host", unsafe.Sizeof(host{}), 4 * line},
		{"selective", unsafe.Sizeof(selective{}), 2 * line},
		{"Flow", unsafe.Sizeof(Flow{}), 6 * line},
		{"Pacer", unsafe.Sizeof(Pacer{}), 5 * line},
	} {
		if x.size != x.want {
			t.Errorf("a %s takes %d bytes, want %d", x.what, x.size, x.want)
		}
	}
	var (
		p port
		h host
		f Flow
		a Pacer
		s selective
	)
	receiver := unsafe.Offsetof(f.receiverState)
	for _, x := range []struct {
		what      string
		at        uintptr
		from, end uintptr // lines
	}{
		{"port.txPackets", unsafe.Offsetof(p.txPackets), 0, 1},
		{"port.queueBytes", unsafe.Offsetof(p.queueBytes), 1, 2},
		{"host.lists", unsafe.Offsetof(h.lists), 0, 2},
		{"Flow.sending", unsafe.Offsetof(f.sending), 0, 1},
		{"Flow.rev", receiver + unsafe.Offsetof(f.receiverState.rev), 1, 2},
		{"Flow.got.base", receiver + unsafe.Offsetof(f.receiverState.got) + unsafe.Offsetof(f.receiverState.got.base), 1, 2},
		{"Flow.fwd", unsafe.Offsetof(f.fwd), 2, 3},
		{"Flow.Size", unsafe.Offsetof(f.Size), 3, 4},
		{"Pacer.first", unsafe.Offsetof(a.pacerState) + unsafe.Offsetof(a.pacerState.first), 0, 4},
		{"selective.acked.base", unsafe.Offsetof(s.acked) + unsafe.Offsetof(s.acked.base), 0, 1},
	} {
		if l := x.at / line; l < x.from || l >= x.end {
			t.Errorf("%s is in line %d, want %d to %d", x.what, l, x.from, x.end-1)
		}
	}
}
