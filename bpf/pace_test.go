// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/tokenbucket"
	"github.com/softroce/softroce-xdp/rocev2"
)

const (
	classID = 0x10005
	frameB  = 14 + 20 + 8 + 12 + 16 + 64 + 4 // a WRITE of 64 bytes
	rate    = frameB * 8 * 1_000_000         // so that one frame takes 1000 ns
	frameNs = 1000
)

func paced(d *bpf.DestRegs) { aware(d); d.StackRateBps, d.ClassId = rate, classID }

// send pushes one WRITE through egress and returns what the pacer did with it.
func (l *lab) send() (verdict uint32, t1 uint64, skb skbContext) {
	l.t.Helper()
	verdict, out := l.run(l.objs.SoftroceEgress, &ebpf.RunOptions{Data: toPeer(l.t, write(64)), Context: &skb, ContextOut: &skb})
	if verdict == tcNext {
		t1 = stampOf(l.t, out).T1
	}
	return verdict, t1, skb
}

// The pacers, at the same rate. T1 is when the packet leaves the pacer, so that
// the queue of the pacer never looks like congestion in the network.
func TestPacers(t *testing.T) {
	for _, c := range []struct {
		name      string
		pacer     uint32
		leaves    [3]uint64 // departure times of three packets handed over at once; 0 = dropped
		tstamp    bool      // skb->tstamp is expected, for fq
		priority  uint32    // expected skb->priority, for HTB
		nextTx    uint64
		waited    uint64
		wantCount []string
	}{
		{"none", bpf.PacerNone, [3]uint64{labStart, labStart, labStart}, false, 0, 0, 0, nil},
		{"edt", bpf.PacerEDT, [3]uint64{labStart, labStart + frameNs, labStart + 2*frameNs}, true, 0, labStart + 3*frameNs, 3 * frameNs,
			[]string{"tx_paced", "tx_paced"}},
		{"htb", bpf.PacerHTB, [3]uint64{labStart, labStart + frameNs, labStart + 2*frameNs}, false, classID, labStart + 3*frameNs, 3 * frameNs,
			[]string{"tx_paced", "tx_paced"}},
		{"police", bpf.PacerPolice, [3]uint64{labStart, 0, 0}, false, 0, labStart + frameNs, 0, []string{"tx_policed", "tx_policed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			l.config(func(cfg *bpf.Config) { cfg.Pacer = c.pacer })
			l.know(peer4, paced)
			for i, want := range c.leaves {
				verdict, t1, skb := l.send()
				if want == 0 {
					if verdict != tcDrop {
						t.Errorf("packet %d: verdict %d, want it dropped", i, verdict)
					}
					continue
				}
				c.wantCount = append(c.wantCount, "tx_stamped")
				tstamp := uint64(0)
				if c.tstamp {
					tstamp = want
				}
				if verdict != tcNext || t1 != want || skb.get64(skbTstamp) != tstamp || skb.get32(skbPriority) != c.priority {
					t.Errorf("packet %d: verdict %d, T1 %d, tstamp %d, priority %#x", i, verdict, t1, skb.get64(skbTstamp), skb.get32(skbPriority))
				}
			}
			l.wantCounters(c.wantCount...)
			r := l.regs(peer4)
			if r.NextTxNs != c.nextTx || r.PacedNs != c.waited || int(r.WinPaced) != len(c.wantCount)-int(r.TxPackets-r.Dropped) {
				t.Errorf("next_tx_ns %d, paced_ns %d, win_paced %d", r.NextTxNs, r.PacedNs, r.WinPaced)
			}
			if r.TxPackets != 3 || c.pacer == bpf.PacerPolice && r.Dropped != 2 {
				t.Errorf("%d packets, %d dropped", r.TxPackets, r.Dropped)
			}
		})
	}
}

// A destination that was idle may send burst_ns worth at once, and no more.
func TestPaceBurst(t *testing.T) {
	l := newLab(t)
	l.config(func(c *bpf.Config) { c.Pacer, c.BurstNs = bpf.PacerEDT, 2*frameNs })
	l.know(peer4, paced)
	for i, want := range []uint64{0, 0, 0, frameNs, 2 * frameNs} {
		if _, t1, _ := l.send(); t1 != labStart+want {
			t.Errorf("packet %d leaves at %d, want %d", i, t1-labStart, want)
		}
	}
	// A short pause earns what it lasted.
	l.at(labStart + 4*frameNs)
	for i, want := range []uint64{4 * frameNs, 4 * frameNs, 5 * frameNs} {
		if _, t1, _ := l.send(); t1 != labStart+want {
			t.Errorf("after the pause, packet %d leaves at %d, want %d", i, t1-labStart, want)
		}
	}
}

// The pacer of the engine gives the same results (rocev2/engine).
func TestPaceVectors(t *testing.T) {
	for _, v := range tokenbucket.All {
		l := newLab(t)
		l.config(func(c *bpf.Config) { c.Pacer, c.BurstNs = bpf.PacerEDT, uint64(v.BurstNs) })
		l.know(peer4, func(d *bpf.DestRegs) {
			paced(d)
			if d.StackRateBps = 0; v.FrameNs != 0 {
				d.StackRateBps = rate * frameNs / uint64(v.FrameNs)
			}
		})
		for i, p := range v.Packets {
			l.at(labStart + uint64(p.At))
			if _, t1, _ := l.send(); t1 != labStart+uint64(p.Leaves) {
				t.Errorf("%s: packet %d leaves at %d, want %d", v.Name, i, t1-labStart, p.Leaves)
			}
		}
		if empty := l.regs(peer4).NextTxNs; v.FrameNs != 0 && empty != labStart+uint64(v.EmptyNs) {
			t.Errorf("%s: empty at %d, want %d", v.Name, empty-labStart, v.EmptyNs)
		}
	}
}

// Random packets leave when the reference says, with the same bits in the table. The stamp has
// 48 bits of a time.
func TestPaceRandom(t *testing.T) {
	l := newLab(t)
	r := rand.New(rand.NewPCG(1, 1))
	waited := 0
	for range 2000 {
		b := tokenbucket.RandomBucket(r)
		now := max(b.RandomTime(r), 1) // the clock of the test cannot be 0
		l.config(func(c *bpf.Config) { c.Pacer, c.BurstNs, c.HeartbeatTimeoutNs = bpf.PacerEDT, b.BurstNs, 0 })
		l.know(peer4, func(d *bpf.DestRegs) { paced(d); d.StackRateBps, d.NextTxNs = b.RateBps, b.NextTxNs })
		l.at(now)
		before := b
		want := b.Departure(now, frameB)
		_, t1, _ := l.send()
		if next := l.regs(peer4).NextTxNs; t1 != want&rocev2.StampTimeMask || next != b.NextTxNs {
			t.Fatalf("%+v at %d: leaves at %d, next at %d; want %d and %d", before, now, t1, next, want, b.NextTxNs)
		}
		if want != now {
			waited++
		}
	}
	if waited < 200 {
		t.Errorf("%d packets waited", waited)
	}
}

// Behind eight seconds of others a packet still waits, but does not lengthen the backlog: a
// drop would end an rxe QP.
func TestPaceOverflow(t *testing.T) {
	for _, pacer := range []uint32{bpf.PacerEDT, bpf.PacerHTB} {
		l := newLab(t)
		l.config(func(c *bpf.Config) { c.Pacer = pacer })
		l.know(peer4, func(d *bpf.DestRegs) { paced(d); d.NextTxNs = labStart + 8_000_000_000 })
		if verdict, t1, _ := l.send(); verdict != tcNext || t1 != labStart+8_000_000_000 {
			t.Errorf("eight seconds: verdict %d, T1 %d", verdict, t1)
		}
		l.wantCounters("tx_paced", "tx_stamped")
		before := l.regs(peer4).NextTxNs
		if verdict, t1, _ := l.send(); verdict != tcNext || t1 != before {
			t.Errorf("over eight seconds: verdict %d, T1 %d, want %d", verdict, t1, before)
		}
		l.wantCounters("tx_overflow", "tx_paced", "tx_stamped")
		if r := l.regs(peer4); r.NextTxNs != before || r.Dropped != 0 {
			t.Errorf("the packet moved next_tx_ns by %d, dropped %d", r.NextTxNs-before, r.Dropped)
		}
	}
}

// An HTB class that the agent has not made yet, and a rate of 0, pace nothing.
func TestPaceNotYet(t *testing.T) {
	for _, change := range []func(*bpf.DestRegs){
		func(d *bpf.DestRegs) { d.ClassId = 0 },
		func(d *bpf.DestRegs) { d.StackRateBps = 0 },
	} {
		l := newLab(t)
		l.config(func(c *bpf.Config) { c.Pacer = bpf.PacerHTB })
		l.know(peer4, paced, change)
		for range 3 {
			if _, t1, skb := l.send(); t1 != labStart || skb.get32(skbPriority) != 0 {
				t.Errorf("T1 %d, priority %#x", t1, skb.get32(skbPriority))
			}
		}
		l.wantCounters("tx_stamped", "tx_stamped", "tx_stamped")
	}
}

// Without an agent the last rates apply until the heartbeat times out; then traffic is
// unpaced.
func TestHeartbeat(t *testing.T) {
	const timeout = 1_000_000
	l := newLab(t)
	l.config(func(c *bpf.Config) {
		c.Pacer, c.HeartbeatNs, c.HeartbeatTimeoutNs = bpf.PacerHTB, labStart, timeout
	})
	l.know(peer4, paced)
	l.at(labStart - 1) // the agent has just written a time that is ahead of ours
	l.send()
	l.wantCounters("tx_stamped")
	l.at(labStart + timeout)
	l.send()
	l.wantCounters("tx_stamped")
	l.at(labStart + timeout + 1)
	if _, t1, skb := l.send(); t1 != labStart+timeout+1 || skb.get32(skbPriority) != 0 {
		t.Errorf("T1 %d, priority %#x", t1, skb.get32(skbPriority))
	}
	l.wantCounters("tx_stamped", "tx_fail_open")
}

// Failing open, a packet still leaves behind those in fq: it gets the departure time of the
// last one and delays no other.
func TestFailOpenKeepsOrder(t *testing.T) {
	l := newLab(t)
	l.config(func(c *bpf.Config) { c.Pacer, c.HeartbeatNs, c.HeartbeatTimeoutNs = bpf.PacerEDT, 1, 1 })
	l.know(peer4, func(d *bpf.DestRegs) { paced(d); d.NextTxNs = labStart + 700 })
	for range 2 {
		if _, t1, skb := l.send(); t1 != labStart+700 || skb.get64(skbTstamp) != labStart+700 {
			t.Errorf("T1 %d, tstamp %d, want %d", t1, skb.get64(skbTstamp), uint64(labStart+700))
		}
	}
	l.at(labStart + 701)
	if _, t1, skb := l.send(); t1 != labStart+701 || skb.get64(skbTstamp) != 0 {
		t.Errorf("fq is empty: T1 %d, tstamp %d", t1, skb.get64(skbTstamp))
	}
	l.wantCounters("tx_fail_open", "tx_fail_open", "tx_fail_open", "tx_stamped", "tx_stamped", "tx_stamped")
}

// Under CLOCK_TAI the pacer still runs on CLOCK_MONOTONIC, and T1 says in TAI when
// the packet leaves.
func TestPaceTAI(t *testing.T) {
	l := newLab(t)
	l.constant("clock_tai", 1)
	l.config(func(c *bpf.Config) { c.Pacer = bpf.PacerEDT })
	l.know(peer4, func(d *bpf.DestRegs) { paced(d); d.NextTxNs = labStart + 500_000_000 })
	before := clockTAI(t)
	_, t1, skb := l.send()
	after := clockTAI(t)
	t1 |= before &^ rocev2.StampTimeMask
	if t1 < before+500_000_000 || t1 > after+500_000_000 {
		t.Errorf("T1 %d, want it between %d and %d", t1, before+500_000_000, after+500_000_000)
	}
	if skb.get64(skbTstamp) != labStart+500_000_000 {
		t.Errorf("tstamp %d", skb.get64(skbTstamp))
	}
	if r := l.regs(peer4); r.LastTxNs < before || r.LastTxNs > after {
		t.Errorf("last_tx_ns %d", r.LastTxNs)
	}
}
