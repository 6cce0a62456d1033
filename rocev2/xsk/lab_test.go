// SPDX-License-Identifier: Apache-2.0

package xsk_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
	"github.com/softroce/softroce-xdp/testenv/bench/nicbench"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// A lab is two hosts on one cable, with sockets on all queues of both ends.
type lab struct {
	ends [2]topo.CableEnd
	sets [2]xsk.Set
	redi [2]*nicbench.Redirector
}

func newCable(t testing.TB, spec topo.CableSpec) [2]topo.CableEnd {
	t.Helper()
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	spec.Name = "cable0"
	ends, err := topo.Cable(top.Host(1), top.Host(2), spec)
	if err != nil {
		t.Fatal(err)
	}
	return ends
}

func newLab(t testing.TB, spec topo.CableSpec, c xsk.Config) *lab {
	t.Helper()
	l := &lab{ends: newCable(t, spec)}
	for i, end := range l.ends {
		set, r, err := nicbench.Open(end, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			r.Close()
			if err := set.Close(); err != nil {
				t.Error(err)
			}
		})
		l.sets[i], l.redi[i] = set, r
	}
	return l
}

// pattern is a frame from one end to the other, of any length, that differs from
// those with another seed.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7>>3) ^ byte(i) ^ seed
	}
	copy(b, []byte{2, 0x53, 0x52, 0xca, 0, 2, 2, 0x53, 0x52, 0xca, 0, 1, 0x88, 0xb5})
	return b
}

// send transmits the packets.
func send(t testing.TB, s *xsk.Socket, packets ...[]byte) {
	t.Helper()
	for _, p := range packets {
		buf := s.Frame()
		if buf == nil {
			t.Fatal("no frame to transmit")
		}
		s.Push(copy(buf, p))
	}
	s.Submit()
	if err := s.Kick(); err != nil {
		t.Fatal(err)
	}
}

// receive waits for n packets and returns copies of them.
func receive(t testing.TB, s *xsk.Socket, n int) [][]byte {
	t.Helper()
	b := s.NewBatch(64)
	var got [][]byte
	for deadline := time.Now().Add(testkit.Patience); len(got) < n; {
		if time.Now().After(deadline) {
			st, err := s.Stats()
			t.Fatalf("%d of %d packets came; %+v %v", len(got), n, st, err)
		}
		if _, err := s.Wait(100 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		for i := range s.Receive(b) {
			got = append(got, bytes.Clone(b.Packet(i).Linear(make([]byte, 16384))))
		}
		b.Release()
	}
	return got
}
