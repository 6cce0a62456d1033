// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// lossy drops this share of all packets, in both directions.
func (p *pair) lossy(seed uint64, share float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	p.drop = func(int, *rocev2.Packet) bool { return r.Float64() < share }
}

// transfer sends n messages of size bytes and returns the data packets sent per packet
// needed.
func (p *pair) transfer(op verbs.Op, n int, size uint32) float64 {
	p.t.Helper()
	r := rand.New(rand.NewPCG(2, 2))
	from, to := 0, 1
	if op == verbs.OpRead {
		from, to = 1, 0
	}
	fillRandom(r, p.data(from)[:1<<20])
	slots := uint64(1<<20) / uint64(size)
	posted := 0
	for posted < n || len(p.side[0].cq.got) < n {
		for posted < n && posted-len(p.side[0].cq.got) < 64 {
			at := dataBase + uint64(posted)%slots*uint64(size)
			if op == verbs.OpSend {
				if err := p.side[1].q.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{{Addr: at, Len: size, LKey: dataKey}}}); err != nil {
					p.t.Fatal(err)
				}
			}
			p.post(&verbs.SendWR{ID: uint64(posted), Op: op, Flags: verbs.Signaled, RemoteAddr: at, RKey: dataKey,
				SGL: []verbs.SGE{{Addr: at, Len: size, LKey: dataKey}}})
			posted++
		}
		before := len(p.side[0].cq.got)
		p.run(func() bool { return len(p.side[0].cq.got) != before })
	}
	p.wantAll(n)
	used := min(uint64(n), slots) * uint64(size)
	if !bytes.Equal(p.data(from)[:used], p.data(to)[:used]) {
		p.t.Error("the data differs")
	}
	needed := n * int(rocev2.PMTU256.Packets(size))
	return float64(p.side[from].data) / float64(needed)
}

// Packets sent for one delivered, at random loss of all packets in both
// directions. Towards go-back-N rxe itself was measured at 7.2.
func TestLossEfficiency(t *testing.T) {
	for _, c := range []struct {
		name      string
		selective bool
		op        verbs.Op
		size      uint32
		share     float64
		limit     float64
	}{
		{"standard/write/5%", false, verbs.OpWrite, 16 << 10, 0.05, 2},
		{"standard/write/1%", false, verbs.OpWrite, 16 << 10, 0.01, 1.4},
		{"standard/send/5%", false, verbs.OpSend, 1000, 0.05, 2},
		{"standard/read/5%", false, verbs.OpRead, 16 << 10, 0.05, 2},
		{"selective/write/5%", true, verbs.OpWrite, 16 << 10, 0.05, 1.15},
		{"selective/write/1%", true, verbs.OpWrite, 16 << 10, 0.01, 1.05},
		{"selective/send/5%", true, verbs.OpSend, 1000, 0.05, 1.15},
		{"selective/read/5%", true, verbs.OpRead, 16 << 10, 0.05, 1.15},
		{"selective/small/5%", true, verbs.OpWrite, 64, 0.05, 1.2},
		{"standard/small/5%", false, verbs.OpWrite, 64, 0.05, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(3) {
				p := newPair(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Selective = c.selective })
				p.lossy(seed, c.share)
				n := 300
				if c.size < 2000 {
					n = 3000
				}
				got := p.transfer(c.op, n, c.size)
				s := &p.side[0].count
				t.Logf("seed %d: %.3f, %.1f ms, again %d, timeouts %d, probes %d, NAKs %d, SACKs %d, stale %d",
					seed, got, float64(p.now)/1e6, s.SentAgain+p.side[1].count.SentAgain, s.Timeouts, s.TailProbes, s.SeqErr, s.SACKReceived, s.StaleAnswer)
				if got > c.limit {
					t.Errorf("seed %d: %.3f packets sent for one delivered, want at most %.2f", seed, got, c.limit)
				}
			}
		})
	}
}

// The Missed count: a READ request sent again reveals no loss of ours, because its response
// was lost. A WRITE sent again after a NAK does.
func TestRequesterMissed(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpRead, 4*256, 0)
	x.sends(9)
	x.response(0, 0, 1, 4*256)
	x.response(0, 2, 4, 4*256) // 1 is missing
	if !x.q.NextData(x.now, &x.out) || !x.out.Again || !x.out.Lost || x.out.Missed != 0 {
		t.Errorf("READ request again: %+v", x.out)
	}
	x = newSource(t, verbs.RC)
	x.post(verbs.OpWrite, 4*256, 0)
	x.sends(9)
	x.nak(1, rocev2.NAKPSNSequence)
	if !x.q.NextData(x.now, &x.out) || !x.out.Again || x.out.Missed != 1 {
		t.Errorf("WRITE again: %+v", x.out)
	}
}

// A retransmission after silence or an RNR NAK is not marked Lost: one dead peer must not
// make congestion control slow down other queue pairs. A retransmission after a NAK is
// marked, and so is the rest of a window once the peer responds again.
func TestLost(t *testing.T) {
	lost := func(x *source, want string) {
		t.Helper()
		got := ""
		for x.q.NextData(x.now, &x.out) {
			switch {
			case x.out.Lost && !x.out.Again:
				t.Error("a packet is sent for the first time and lost")
			case x.out.Lost:
				got += "L"
			case x.out.Again:
				got += "a"
			default:
				got += "."
			}
		}
		if got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
	silent := newSource(t, verbs.RC)
	silent.post(verbs.OpWrite, 4*256, 0)
	lost(silent, "....")
	for silent.count.Timeouts < 3 {
		silent.expire()
		lost(silent, "a")
	}
	silent.ack(0)
	lost(silent, "LL")

	told := newSource(t, verbs.RC)
	told.post(verbs.OpWrite, 4*256, 0)
	lost(told, "....")
	told.nak(1, rocev2.NAKPSNSequence)
	lost(told, "LLL")

	unready := newSource(t, verbs.RC)
	unready.post(verbs.OpSend, 4*256, 0)
	lost(unready, "....")
	unready.rnr(0, 1)
	unready.expire()
	lost(unready, "aaaa")
	unready.nak(2, rocev2.NAKPSNSequence)
	lost(unready, "LL")
}

// A READ from a standard responder reaches 90 % of what a WRITE does, at random loss in both
// directions of a link of 200 Mbit/s.
func TestLossReadAndWrite(t *testing.T) {
	const messages, size, outstanding = 300, 64 << 10, 8
	took := func(op verbs.Op, share float64, seed uint64) Time {
		p := newPair(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.PMTU = rocev2.PMTU1024 })
		p.each, p.delay = 45_000, 50_000
		dest := &sharedDest{flight: NewFlight()}
		p.side[0].q.SetFlight(&dest.flight)
		p.lossy(seed, share)
		wr := &verbs.SendWR{Op: op, Flags: verbs.Signaled, RemoteAddr: dataBase, RKey: dataKey, SGL: []verbs.SGE{{Addr: dataBase, Len: size, LKey: dataKey}}}
		for posted, start := 0, p.now; ; {
			done := len(p.side[0].cq.got)
			if done == messages {
				t.Logf("operation %d, %.0f %% lost, seed %d: %.0f Mbit/s", op, 100*share, seed, messages*size*8e3/float64(p.now-start))
				return p.now - start
			}
			for ; posted < messages && posted-done < outstanding; posted++ {
				p.post(wr)
			}
			for len(p.side[0].cq.got) == done {
				if dest.step(p); p.now > 60e9 {
					t.Fatal("not done after a minute")
				}
			}
		}
	}
	for _, share := range []float64{0, 0.01, 0.05} {
		for seed := range uint64(5) {
			write, read := took(verbs.OpWrite, share, seed), took(verbs.OpRead, share, seed)
			if ratio := float64(write) / float64(read); ratio < 0.9 {
				t.Errorf("%.0f %% lost, seed %d: READ reaches %.2f of WRITE", 100*share, seed, ratio)
			}
		}
	}
}
