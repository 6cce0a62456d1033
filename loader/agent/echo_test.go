// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2"
)

// echoTick is the time between two evaluations.
const echoTick = 5 * time.Millisecond

// echoLab is an agent without a table: evaluations are snapshots.
type echoLab struct {
	a    *Agent
	now  uint64
	sent []bpf.DestKey
	t    *testing.T
}

func newEchoLab(t *testing.T) *echoLab {
	l := &echoLab{t: t, now: 1000 * second, a: &Agent{log: slog.New(slog.DiscardHandler), own: &loader.OwnAddresses{}}}
	l.a.control.send = func(_, peer netip.Addr, build packetBuilder) error {
		var b [rocev2.MaxHelloLen]byte
		n, err := build(b[:], peer, peer)
		if err != nil {
			return err
		}
		p, err := rocev2.ParseIP(b[:n])
		if err != nil || p.Opcode() != rocev2.OpEcho {
			t.Errorf("sent %v: %v", p.Opcode(), err)
		}
		l.sent = append(l.sent, bpf.KeyOf(peer))
		return nil
	}
	return l
}

// evaluate makes an evaluation of these destinations 5 ms after the last one, and returns
// who was sent an ECHO.
func (l *echoLab) evaluate(dests ...*bpf.DestRegs) []bpf.DestKey {
	l.now += uint64(echoTick)
	l.sent = nil
	for i, d := range dests {
		if d != nil {
			l.a.echoes.note(keyN(byte(i+1)), d, l.now)
		}
	}
	l.a.sendEchoes(l.now)
	return l.sent
}

// Who gets an ECHO: a peer whose stamped data came in an evaluation in which nothing with a
// stamp was sent to it.
func TestEchoDue(t *testing.T) {
	for _, c := range []struct {
		name string
		caps uint16
		then func(d *bpf.DestRegs)
		want bool
	}{
		{"stamped data came", bpf.CapStamp, func(d *bpf.DestRegs) { d.RxPackets++ }, true},
		{"nothing came", bpf.CapStamp, func(*bpf.DestRegs) {}, false},
		{"we sent data", bpf.CapStamp, func(d *bpf.DestRegs) { d.TxPackets++ }, false},
		{"stamped data came, and we have sent", bpf.CapStamp, func(d *bpf.DestRegs) { d.RxPackets += 9; d.TxPackets++ }, false},
		{"what we sent had no room for the stamp", bpf.CapStamp, func(d *bpf.DestRegs) { d.RxPackets++; d.TxPackets++; d.TxUnstamped++ }, true},
		{"what came was not stamped", bpf.CapStamp, func(d *bpf.DestRegs) { d.RxPackets++; d.RxUnstamped++ }, false},
		{"the peer does not understand stamps", 0, func(d *bpf.DestRegs) { d.RxPackets++ }, false},
		{"an engine that does not either", bpf.CapSACK, func(d *bpf.DestRegs) { d.RxPackets++ }, false},
	} {
		l := newEchoLab(t)
		d := &bpf.DestRegs{Caps: c.caps, RxPackets: 50, TxPackets: 40, RxUnstamped: 3, TxUnstamped: 4}
		if got := l.evaluate(d); len(got) != 0 {
			t.Errorf("%s: an agent that begins sends %d ECHOs", c.name, len(got))
		}
		c.then(d)
		if got := l.evaluate(d); (len(got) == 1) != c.want {
			t.Errorf("%s: %d ECHOs", c.name, len(got))
		}
		if got := l.evaluate(d); len(got) != 0 {
			t.Errorf("%s: %d ECHOs of what was echoed", c.name, len(got))
		}
	}
}

// At most one an evaluation for each destination, however much comes.
func TestEchoOnePerEvaluation(t *testing.T) {
	l := newEchoLab(t)
	d := &bpf.DestRegs{Caps: bpf.CapStamp}
	for i := range 100 {
		d.RxPackets += 1000
		if got := l.evaluate(d); len(got) != 1 {
			t.Fatalf("evaluation %d: %d ECHOs", i, len(got))
		}
	}
}

// Where the budget does not suffice, all take turns, and those that are echoed meanwhile or
// have fallen silent do not cost any of it.
func TestEchoBudget(t *testing.T) {
	const dests, ticks = 200, 400
	l := newEchoLab(t)
	all := make([]*bpf.DestRegs, dests)
	for i := range all {
		all[i] = &bpf.DestRegs{Caps: bpf.CapStamp}
	}
	count := map[bpf.DestKey]int{}
	total := 0
	for range ticks {
		for _, d := range all {
			d.RxPackets++
		}
		for _, key := range l.evaluate(all...) {
			count[key]++
			total++
		}
	}
	took := time.Duration(ticks) * echoTick
	if most := int(echoRate*took/time.Second) + echoBurst; total > most || total < most*9/10 {
		t.Errorf("%d ECHOs in %v, want up to %d", total, took, most)
	}
	least, most := total, 0
	for _, n := range count {
		least, most = min(least, n), max(most, n)
	}
	if len(count) != dests || most-least > 1 {
		t.Errorf("%d destinations of %d have from %d to %d ECHOs", len(count), dests, least, most)
	}

	// They all fall silent: what waits is too old to be echoed.
	l.now += echoMaxAge
	if got := l.evaluate(); len(got) != 0 {
		t.Errorf("%d ECHOs of stamps that are too old", len(got))
	}
	if len(l.a.echoes.queue) != 0 {
		t.Errorf("%d still wait", len(l.a.echoes.queue))
	}
	// One is forgotten while it waits, another sends.
	for _, d := range all[:70] {
		d.RxPackets++
	}
	l.a.echoes.budget, l.a.echoes.filled = 0, l.now+uint64(echoTick)
	if got := l.evaluate(all[:70]...); len(got) != 0 {
		t.Errorf("%d ECHOs without a budget", len(got))
	}
	delete(l.a.echoes.all, keyN(1))
	all[1].TxPackets++
	got := l.evaluate(nil, all[1])
	if len(got) != echoRate*int(echoTick)/int(time.Second) || slices.Contains(got, keyN(1)) || slices.Contains(got, keyN(2)) {
		t.Errorf("%d ECHOs: %v", len(got), got)
	}
}

// The source address is looked up once a second, and again after a failure.
func TestSources(t *testing.T) {
	var s routes
	asked := 0
	var fails error
	ask := func(peer netip.Addr) (netip.Addr, error) {
		asked++
		return peer.Next(), fails
	}
	now := 1000 * second
	for i, c := range []struct {
		peer  byte
		after uint64
		fails error
		asked int
	}{{1, 0, nil, 1}, {1, 1, nil, 1}, {2, 0, io.EOF, 2}, {2, 0, nil, 3}, {2, sourceTime - 1, nil, 3}, {1, 0, nil, 3}, {1, 1, nil, 4}, {2, 0, nil, 5}} {
		fails = c.fails
		now += c.after
		src, err := s.get(peerN(c.peer), now, ask)
		if err != c.fails || src != peerN(c.peer).Next() || asked != c.asked {
			t.Errorf("%d: %v %v, asked %d times, want %d", i, src, err, asked, c.asked)
		}
	}
}
