// SPDX-License-Identifier: Apache-2.0

package published

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// params: 80 Gb/s = 10 bytes/ns and T 10 us, so a full window is 100000 bytes.
func hpccParams() HPCCParams {
	p := HPCCDefault(80e9, 10_000)
	p.AIBps = 80e6 // W_AI 100 bytes
	p.MaxStage = 5
	return p
}

func hpccNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Fatalf("%s: got %.9g, want %.9g", what, got, want)
	}
}

func hpccHop(q int64, tx uint64, ts int64) []HPCCHop { return []HPCCHop{{q, tx, ts, 80e9}} }

func TestHPCCSequence(t *testing.T) {
	p := hpccParams()
	f := NewHPCCFlow(&p)
	hpccNear(t, "start", f.Window(), 100_000)
	f.Ack(hpccHop(0, 0, 0), 1, 100)
	hpccNear(t, "the first ACK only starts the measurement", f.Window(), 100_000)

	// A whole T at line rate with 50000 bytes queued at both ends:
	// u = 50000/100000 + 1 = 1.5, weight 1.
	f.last[0].QueueBytes = 50_000
	f.Ack(hpccHop(50_000, 100_000, 10_000), 50, 150)
	hpccNear(t, "U", f.U(), 1.5)
	w := 100_000*.95/1.5 + 100
	hpccNear(t, "cut inside the round", f.Window(), w)
	// 5 us at .4 of the line: u = .4, weight .5, still from the same reference.
	f.Ack(hpccHop(0, 120_000, 15_000), 60, 160)
	hpccNear(t, "U", f.U(), .5*1.5+.5*.4)
	hpccNear(t, "cut from the reference, not from the last window", f.Window(), 100_000*.95/.95+100-100)
	// The round ends: sequence 100 was sent at the first ACK. 2.5 us with 25000
	// bytes queued: u = 1.25, weight .25.
	f.last[0].QueueBytes = 30_000
	f.Ack(hpccHop(25_000, 145_000, 17_500), 101, 250)
	u := .75*.95 + .25*1.25
	hpccNear(t, "U", f.U(), u)
	ref := 100_000*.95/u + 100
	hpccNear(t, "the reference follows", f.ref, ref)
	// 10 us at .4 of the line: below eta, additive from now on.
	f.Ack(hpccHop(0, 185_000, 27_500), 251, 300)
	hpccNear(t, "U", f.U(), .4)
	hpccNear(t, "additive", f.Window(), ref+100)
	if f.stage != 1 {
		t.Errorf("stage %d, want 1", f.stage)
	}
}

func TestHPCCFiveAdditiveRoundsThenMultiplicative(t *testing.T) {
	p := hpccParams()
	f := NewHPCCFlow(&p)
	f.window, f.ref = 10_000, 10_000
	seq, tx, ts := uint64(1), uint64(0), int64(0)
	f.Ack(hpccHop(0, tx, ts), seq, seq+1)
	for i := range 5 {
		seq, tx, ts = seq+2, tx+50_000, ts+10_000
		f.Ack(hpccHop(0, tx, ts), seq, seq+1)
		hpccNear(t, "additive", f.Window(), 10_000+100*float64(i+1))
	}
	seq, tx, ts = seq+2, tx+50_000, ts+10_000
	f.Ack(hpccHop(0, tx, ts), seq, seq+1)
	hpccNear(t, "then to eta at once", f.Window(), 10_500*.95/.5+100)
}

func TestHPCCFullestLinkCounts(t *testing.T) {
	p := hpccParams()
	f := NewHPCCFlow(&p)
	f.Ack([]HPCCHop{{0, 0, 0, 80e9}, {0, 0, 500, 40e9}}, 1, 2)
	// The same bytes are half a load of the first and a full one of the second.
	f.Ack([]HPCCHop{{0, 50_000, 10_000, 80e9}, {0, 50_000, 10_500, 40e9}}, 3, 4)
	hpccNear(t, "U", f.U(), 1)
}

func TestHPCCWindowStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := hpccParams()
		f := NewHPCCFlow(&p)
		var seq, tx uint64
		var ts int64
		for range rapid.IntRange(0, 200).Draw(t, "acks") {
			dt := rapid.Int64Range(0, 30_000).Draw(t, "dt")
			ts += dt
			tx += uint64(rapid.Int64Range(0, 10*dt).Draw(t, "bytes"))
			seq += uint64(rapid.IntRange(0, 50).Draw(t, "acked"))
			f.Ack(hpccHop(rapid.Int64Range(0, 1<<20).Draw(t, "queue"), tx, ts), seq, seq+100)
			if !(f.Window() >= 100-1e-9 && f.Window() <= 100_000+1e-9) {
				t.Fatalf("window %g", f.Window())
			}
		}
	})
}

func TestHPCCValidate(t *testing.T) {
	for _, spoil := range []func(*HPCCParams){
		func(p *HPCCParams) { p.BaseRTTNs = 0 },
		func(p *HPCCParams) { p.Eta = 1.1 },
		func(p *HPCCParams) { p.MaxStage = -1 },
		func(p *HPCCParams) { p.MinBps = 0 },
	} {
		p := hpccParams()
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		spoil(&p)
		if p.Validate() == nil {
			t.Errorf("accepted %+v", p)
		}
	}
}
