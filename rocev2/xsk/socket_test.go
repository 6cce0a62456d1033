// SPDX-License-Identifier: Apache-2.0

package xsk_test

import (
	"bytes"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/xsk"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

func TestOneWay(t *testing.T) {
	l := newLab(t, topo.CableSpec{}, xsk.Config{})
	a, b := l.sets[0][0], l.sets[1][0]
	if a.Mode() != xsk.Copy {
		t.Errorf("veth is in mode %v", a.Mode())
	}
	var want [][]byte
	for i, n := range []int{60, 64, 1100, 1514} {
		want = append(want, pattern(n, byte(i)))
	}
	send(t, a, want...)
	for i, got := range receive(t, b, len(want)) {
		if !bytes.Equal(got, want[i]) {
			t.Errorf("packet %d: %d bytes, want %d", i, len(got), len(want[i]))
		}
	}
	if n := a.InFlight(); n != 0 {
		t.Errorf("%d packets are still in transmission", n)
	}
}

// Packets that take several frames, both ways in: from the stack's size limits to
// the largest that RoCE has, and beyond.
func TestSeveralFrames(t *testing.T) {
	l := newLab(t, topo.CableSpec{MTU: 9000}, xsk.Config{SG: true, TxPacket: 9014})
	a, b := l.sets[0][0], l.sets[1][0]
	var want [][]byte
	for i, n := range []int{60, 3520, 3521, 3840, 3841, 4096, 4097, 4170, 4210, 7680, 7681, 8192, 8193, 9014} {
		want = append(want, pattern(n, byte(i)))
	}
	send(t, a, want...)
	for i, got := range receive(t, b, len(want)) {
		if !bytes.Equal(got, want[i]) {
			t.Errorf("packet %d: %d bytes, want %d", i, len(got), len(want[i]))
		}
	}
	if n := a.InFlight(); n != 0 {
		t.Errorf("%d packets are still in transmission", n)
	}
}
