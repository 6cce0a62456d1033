// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim"
)

// TestLoneFlow: a flow alone takes exactly the ideal time, whatever its size, with
// slow and fast links on its path and with a window of one BDP.
func TestLoneFlow(t *testing.T) {
	slow := sim.Link{Bps: 40e9, Delay: 2 * time.Microsecond}
	for _, middle := range []sim.Link{gig100, slow, {Bps: 400e9, Delay: time.Microsecond}} {
		for _, size := range []int64{1, 999, 1000, 1001, 12_345, 1_000_000} {
			n := build(t, sim.Config{}, sim.Dumbbell(1, gig100, middle), &sim.Fixed{})
			f := add(t, n, sim.FlowSpec{Src: 0, Dst: 1, Bytes: size})
			if !n.RunAll(10 * time.Millisecond) {
				t.Fatalf("flow of %d bytes did not end", size)
			}
			if f.Slowdown() != 1 {
				t.Errorf("%d bytes over %g Gb/s: slowdown %.6f, want 1", size, float64(middle.Bps)/1e9, f.Slowdown())
			}
		}
	}
	n := build(t, sim.Config{}, sim.Dumbbell(1, gig100, gig100), &sim.Fixed{BDP: true})
	f := add(t, n, sim.FlowSpec{Src: 0, Dst: 1, Bytes: 10_000_000})
	n.RunAll(10 * time.Millisecond)
	if f.Slowdown() > 1.02 {
		t.Errorf("window of one BDP: slowdown %.4f, want at most 1.02", f.Slowdown())
	}
}

// TestBaseRTT: the first ACK comes after exactly Path.BaseRTTNs.
func TestBaseRTT(t *testing.T) {
	s := &spy{}
	n := build(t, sim.Config{Turnaround: 3 * time.Microsecond}, sim.Dumbbell(1, gig100, gig100), s)
	add(t, n, sim.FlowSpec{Src: 0, Dst: 1, Bytes: 1000})
	n.RunAll(time.Millisecond)
	if len(s.acks) != 1 || s.acks[0].RTTNs != s.path.BaseRTTNs {
		t.Fatalf("ACKs %+v, want one with a round trip of %d", s.acks, s.path.BaseRTTNs)
	}
	if turn := s.acks[0].T2Out - s.acks[0].T2; turn != 3000 {
		t.Errorf("turnaround %d ns, want 3000", turn)
	}
	if s.acks[0].Hops != 3 || s.path.Hops != 3 {
		t.Errorf("%d and %d links, want 3", s.acks[0].Hops, s.path.Hops)
	}
}

// TestClocks: T1 and T3 are read from the sender's clock, T2 from the receiver's.
func TestClocks(t *testing.T) {
	s := &spy{}
	n := build(t, sim.Config{}, sim.Dumbbell(1, gig100, gig100), s)
	n.SetClock(0, sim.Clock{Offset: 10 * time.Millisecond})
	n.SetClock(1, sim.Clock{Offset: -10 * time.Millisecond, DriftPPB: 50_000})
	add(t, n, sim.FlowSpec{Src: 0, Dst: 1, Bytes: 1000, Start: time.Second})
	n.RunAll(2 * time.Second)
	a := s.acks[0]
	if got, want := a.T2-a.T1, int64(s.path.OneWayNs)-20_000_000+50_000; got != want {
		t.Errorf("T2-T1 = %d, want %d", got, want)
	}
	if a.T3-a.T1 != s.path.BaseRTTNs {
		t.Errorf("T3-T1 = %d, want %d", a.T3-a.T1, s.path.BaseRTTNs)
	}
}

// TestLoss: both transports deliver everything over a link that loses packets and
// ACKs, and repairing single packets costs less than going back.
func TestLoss(t *testing.T) {
	lossy := gig100
	lossy.Loss = 0.01
	again := map[sim.Transport]uint32{}
	for _, tr := range []sim.Transport{sim.GoBackN, sim.Selective} {
		n := build(t, sim.Config{Transport: tr, Seed: 7}, sim.Dumbbell(1, gig100, lossy), &sim.Fixed{BDP: true})
		f := add(t, n, sim.FlowSpec{Src: 0, Dst: 1, Bytes: 5_000_000})
		if !n.RunAll(10 * time.Second) {
			t.Fatalf("transport %d: %d of %d bytes arrived", tr, f.ReceivedBytes(), f.Size)
		}
		if f.ReceivedBytes() != f.Size {
			t.Errorf("transport %d: %d bytes arrived, want each of %d once", tr, f.ReceivedBytes(), f.Size)
		}
		lost := uint32(n.DataDrops[sim.DropWire])
		if lost == 0 || f.Retransmits < lost {
			t.Errorf("transport %d: %d lost, %d sent again", tr, lost, f.Retransmits)
		}
		again[tr] = f.Retransmits
		t.Logf("transport %d: %d lost, %d sent again, %d timeouts, slowdown %.2f", tr, lost, f.Retransmits, f.Timeouts, f.Slowdown())
	}
	if again[sim.Selective]*5 > again[sim.GoBackN] {
		t.Errorf("selective sent %d packets again, go-back-N %d", again[sim.Selective], again[sim.GoBackN])
	}
}

// TestCoalescedACKs: one ACK for eight packets, and none is forgotten at the end.
func TestCoalescedACKs(t *testing.T) {
	s := &spy{}
	n := build(t, sim.Config{AckEvery: 8}, sim.Dumbbell(1, gig100, gig100), s)
	add(t, n, sim.FlowSpec{Src: 0, Dst: 1, Bytes: 20_000})
	n.RunAll(time.Millisecond)
	var packets []uint32
	for _, a := range s.acks {
		packets = append(packets, a.Packets)
	}
	if len(packets) != 3 || packets[0] != 8 || packets[1] != 8 || packets[2] != 4 {
		t.Errorf("packets by ACK %v, want [8 8 4]", packets)
	}
}

// spy sends as fast as it can and keeps the ACKs.
type spy struct {
	sim.NoControl
	want sim.Needs
	path sim.Path
	acks []sim.Ack
}

func (s *spy) Name() string                          { return "spy" }
func (s *spy) Needs() sim.Needs                      { return s.want }
func (s *spy) NewReceiver(int, sim.Out) sim.Receiver { return nil }
func (s *spy) NewControl(_ int64, p *sim.Pacer) sim.Control {
	s.path = p.Path
	return s
}

func (s *spy) Ack(_ int64, _ *sim.Pacer, a *sim.Ack) {
	kept := *a
	kept.INT = append([]sim.Hop(nil), a.INT...)
	s.acks = append(s.acks, kept)
}
