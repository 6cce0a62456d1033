// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// plainPair is two hosts that never hear each other's HELLO: neither stamps, keeps packets
// behind a gap, or echoes, as peers without the product.
type plainPair struct {
	a, b  *side
	hosts []*engines.Host
	maps  []*loader.Attachment // attachments of the hosts
	sw    *faults.Switch
	v6    bool
}

const plainLink = 200_000_000

var helloOps = []rocev2.Opcode{rocev2.OpHello, rocev2.OpHelloAck}

func newPlainPair(t *testing.T, typ verbs.QPType, pmtu rocev2.PMTU, v6 bool) *plainPair {
	t.Helper()
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), MTU: 4200})
	sw, err := faults.NewLoss(top)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sw.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &plainPair{sw: sw, v6: v6}
	p.lose(t, 0)
	p.hosts = engines.On(t, top, "--rate", fmt.Sprint(plainLink))
	for _, h := range p.hosts {
		h.MustOpen(t, nic.Options{})
		p.maps = append(p.maps, h.Attachment(t))
	}
	p.a, p.b = newSide(t, p.hosts[0], typ, 1<<20), newSide(t, p.hosts[1], typ, 1<<20)
	if err := connectPair(p.a.qp, p.b.qp, p.hosts[0].Addr(v6), p.hosts[1].Addr(v6), pmtu); err != nil {
		t.Fatal(err)
	}
	return p
}

// lose has a share of all packets lost, and every HELLO. The share of HELLO never changes: the
// switch takes one opcode after the other.
func (p *plainPair) lose(t *testing.T, share float64) {
	t.Helper()
	if err := p.sw.Lose(1, helloOps...); err != nil {
		t.Fatal(err)
	}
	var others []rocev2.Opcode
	for op := range 256 {
		if !slices.Contains(helloOps, rocev2.Opcode(op)) {
			others = append(others, rocev2.Opcode(op))
		}
	}
	if err := p.sw.Lose(share, others...); err != nil {
		t.Fatal(err)
	}
}

// goodput has a send 64 KB messages, 8 at a time, and returns bytes a second.
func (p *plainPair) goodput(t *testing.T, op verbs.Op, d time.Duration) float64 {
	t.Helper()
	const size, depth = 65536, 8
	wr := verbs.SendWR{Op: op, Flags: verbs.Signaled, SGL: p.a.sge(0, size), RemoteAddr: p.b.va, RKey: p.b.key}
	for range depth {
		p.a.post(t, &wr)
	}
	start, done := time.Now(), 0
	for under := depth; under > 0; under-- {
		w, err := engines.PollOne(p.a.cq, testkit.Patience)
		if err != nil || w.Status != verbs.StatusSuccess {
			t.Fatalf("%v %+v\n%s\n%s\n%+v", err, w, dump(p.a.dev), dump(p.b.dev), p.row(t, 1, 0).Regs.Policy)
		}
		if time.Since(start) < d {
			done += size
			p.a.post(t, &wr)
			under++
		}
	}
	return float64(done) / time.Since(start).Seconds()
}

// row is the entry of a host for the other one.
func (p *plainPair) row(t *testing.T, host, to int) loader.Row {
	t.Helper()
	row, found, err := p.maps[host].Lookup(p.hosts[to].Addr(p.v6))
	if err != nil || !found {
		t.Fatal(found, err)
	}
	return row
}

// full waits until a host may send to the other one at 90 % of the link.
func (p *plainPair) full(t *testing.T, host, to int) {
	t.Helper()
	start := time.Now()
	for {
		r := p.row(t, host, to).Regs
		if r.Policy.RateBps >= plainLink/10*9 {
			t.Logf("%s: full rate after %v", p.hosts[host].Name(), time.Since(start).Round(time.Millisecond))
			return
		}
		if time.Since(start) > testkit.Patience {
			t.Fatalf("%s: %+v", p.hosts[host].Name(), r)
		}
		p.goodput(t, verbs.OpRead, 100*time.Millisecond)
	}
}

// READ responses that nobody acknowledges keep their rate when packets are lost at random, and what
// the reader sends does as well.
func TestReadFromPlainPeer(t *testing.T) {
	for _, c := range []struct {
		pmtu rocev2.PMTU
		v6   bool
	}{{rocev2.PMTU1024, false}, {rocev2.PMTU4096, true}} {
		t.Run(fmt.Sprintf("%d/v6=%v", c.pmtu.Bytes(), c.v6), func(t *testing.T) {
			p := newPlainPair(t, verbs.RC, c.pmtu, c.v6)
			for _, share := range []float64{0.01, 0.05} {
				p.lose(t, share)
				p.compare(t, share)
			}
			p.readWithLoss(t)
			p.lose(t, 0)
			p.full(t, 1, 0)
		})
	}
}

// readWithLoss demands that losses on the way to the requester do not lower its rate. A machine that stands still
// delays answers, which may lower it too: one of five runs must do.
func (p *plainPair) readWithLoss(t *testing.T) {
	t.Helper()
	for try := 1; ; try++ {
		p.lose(t, 0) // what WRITE has lost may have lowered the rate
		p.full(t, 0, 1)
		p.lose(t, 0.2)
		p.goodput(t, verbs.OpRead, time.Second)
		r := p.row(t, 0, 1).Regs
		t.Logf("20 %% lost: the responder sends at %d, the requester at %d", p.row(t, 1, 0).Regs.Policy.RateBps, r.Policy.RateBps)
		if r.Policy.RateBps >= plainLink/10*9 {
			return
		}
		if try == 5 {
			t.Errorf("losses on the way to the requester lowered its rate: %+v", r)
			return
		}
	}
}

// compare demands that READ is within 10 % of WRITE, in the best of three runs.
func (p *plainPair) compare(t *testing.T, share float64) {
	t.Helper()
	for try := 1; ; try++ {
		write, read := p.goodput(t, verbs.OpWrite, time.Second), p.goodput(t, verbs.OpRead, time.Second)
		r := p.row(t, 1, 0).Regs
		q := p.row(t, 0, 1).Regs.Policy
		t.Logf("%2.0f %% lost: WRITE %.1f Mbit/s, READ %.1f; the responder sends at %d, row %d, the requester at %d, row %d",
			100*share, write*8e-6, read*8e-6, r.Policy.RateBps, r.Policy.Row, q.RateBps, q.Row)
		if read >= 0.9*write {
			return
		}
		if try == 3 {
			// The rates are judged by full; what the transport makes of them depends on the machine.
			require.Missed(t, "READ is not within 10 %% of WRITE: %+v\n%s\n%s", r, dump(p.a.dev), dump(p.b.dev))
			return
		}
	}
}
