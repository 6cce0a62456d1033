// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
)

// newTestGreeter sends into a log instead of a socket.
func newTestGreeter(sent *[]bpf.DestKey) *greeter {
	g := &greeter{log: slog.New(slog.DiscardHandler), peers: map[bpf.DestKey]*greeting{}, fd4: -1, fd6: -1}
	g.transmit = func(peer netip.Addr, nonce uint64, _ builder) error {
		*sent = append(*sent, bpf.KeyOf(peer))
		return nil
	}
	g.used = func(bpf.DestKey, uint64) bool { return true }
	return g
}

func peerN(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

func keyN(n byte) bpf.DestKey { return bpf.KeyOf(peerN(n)) }

// second is one of the monotonic clock.
const second = uint64(time.Second)

// A peer that does not answer hears from us ever less.
func TestGreeterBacksOff(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	start := 1000 * second
	g.add(keyN(1), 0, start)
	var at []time.Duration
	for now := start; now < start+180*second; now += second / 100 {
		before := len(sent)
		g.send(now)
		if len(sent) > before {
			at = append(at, time.Duration(now-start))
		}
	}
	want := []time.Duration{0, 50 * time.Millisecond, 250 * time.Millisecond, 1250 * time.Millisecond, 6250 * time.Millisecond, 36250 * time.Millisecond, 96250 * time.Millisecond, 156250 * time.Millisecond}
	if len(at) != len(want) {
		t.Fatalf("sent at %v, want %v", at, want)
	}
	for i := range want {
		if at[i] != want[i] {
			t.Errorf("HELLO %d at %v, want %v", i, at[i], want[i])
		}
	}
}

// Answers that measured nothing are asked for again soon, but not for ever.
func TestGreeterAsksAgain(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	start := 1000 * second
	g.add(keyN(1), 0, start)
	for now := start; now < start+second; now += second / 1000 {
		before := len(sent)
		if g.send(now); len(sent) > before {
			g.answered(keyN(1), bpf.CapStamp, now+500_000)
			g.again(keyN(1), now+500_000)
			g.again(keyN(2), now)
		}
	}
	if len(sent) != 1+helloAgains {
		t.Errorf("sent %d HELLOs, want %d", len(sent), 1+helloAgains)
	}
}

// One that answered is asked again, and given up after some silence.
func TestGreeterLosesPeer(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	now := 1000 * second
	g.add(keyN(1), 0, now)
	g.send(now)
	if !g.answered(keyN(1), bpf.CapStamp, now) {
		t.Error("the first answer is no news")
	}
	if g.answered(keyN(1), bpf.CapStamp, now) {
		t.Error("the second answer is news")
	}
	if g.answered(keyN(2), bpf.CapStamp, now) {
		t.Error("an answer of nobody is news")
	}
	var lost []bpf.DestKey
	for i := range 10 {
		lost = append(lost, g.send(now+uint64(i+1)*2*uint64(helloRefresh))...)
	}
	if len(lost) != 1 || lost[0] != keyN(1) {
		t.Errorf("lost %v, want it once", lost)
	}
}

func TestGreeterLimits(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	now := 1000 * second
	for i := range 200 {
		g.add(keyN(byte(i)), 0, now)
	}
	g.send(now)
	if len(sent) != helloPerTick {
		t.Errorf("%d HELLOs in a tick, want %d", len(sent), helloPerTick)
	}
}

// HELLOs of addresses without an entry: without our token nothing is sent and nothing
// kept, whoever they come from. Those that have it are asked, and still nothing is kept.
// 256 forged ones used to shut out everybody else for ten seconds.
func TestGreeterNewcomers(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	now := 1000 * second
	for i := range 512 {
		g.prompt(bpf.KeyOf(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})), bpf.CapStamp, false, now)
	}
	if g.send(now); len(sent) != 0 || len(g.peers) != 0 {
		t.Errorf("forged: %d HELLOs sent, %d peers kept", len(sent), len(g.peers))
	}
	g.prompt(keyN(1), bpf.CapStamp, true, now)
	if g.send(now); len(sent) != 1 || sent[0] != keyN(1) || len(g.peers) != 0 {
		t.Errorf("genuine: HELLOs to %v, %d peers kept", sent, len(g.peers))
	}
}

// A peer that was attached anew does not know our token any more, nor we its: ask.
func TestGreeterPeerWithoutToken(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	now := 1000 * second
	g.add(keyN(1), bpf.CapStamp, now)
	g.send(now)
	g.answered(keyN(1), bpf.CapStamp, now)
	g.prompt(keyN(1), bpf.CapStamp, true, now)
	if g.send(now); len(sent) != 1 {
		t.Errorf("it knows our token: asked %d times, want 1", len(sent))
	}
	g.prompt(keyN(1), bpf.CapStamp, false, now)
	if g.send(now); len(sent) != 2 {
		t.Errorf("it does not know our token: asked %d times, want 2", len(sent))
	}
}

// Entries for those that only send to us: bounded per network, then in all.
func TestNewcomers(t *testing.T) {
	var n newcomers
	now := 1000 * second
	admitted := func(nets, each int) (got int) {
		for i := range nets {
			for j := range each {
				if n.admit(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), byte(j)}), now) {
					got++
				}
			}
		}
		return got
	}
	if got := admitted(1, 200); got != newcomersPerNet {
		t.Errorf("%d of one /24, want %d", got, newcomersPerNet)
	}
	if !n.admit(netip.MustParseAddr("fd00::1"), now) {
		t.Error("one network keeps out the others")
	}
	admitted(400, newcomersPerNet)
	if n.total != newcomersLimit {
		t.Errorf("%d in all, want %d", n.total, newcomersLimit)
	}
	now += uint64(idleLimit) + 1
	if got := admitted(1, 200); got != newcomersPerNet || len(n.nets) != 1 {
		t.Errorf("%d when the others' entries are gone, want %d", got, newcomersPerNet)
	}
}

// Two hosts whose answers get lost must not prompt each other without end.
func TestGreeterPromptIsNoVolley(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	now := 1000 * second
	g.add(keyN(1), 0, now)
	for i := range 1000 { // ten seconds in which the peer's HELLO comes every 10 ms
		at := now + uint64(i)*second/100
		g.prompt(keyN(1), bpf.CapStamp, true, at)
		g.send(at)
	}
	if len(sent) > 12 {
		t.Errorf("%d HELLOs in ten seconds", len(sent))
	}
}

// An engine that comes and goes at the peer: each time we ask once, and not more often
// than every few seconds.
func TestGreeterCapsOfPeerChange(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	now := 1000 * second
	g.add(keyN(1), bpf.CapStamp, now)
	g.send(now)
	g.answered(keyN(1), bpf.CapStamp, now)
	hello := func(caps uint16) int {
		before := len(sent)
		g.prompt(keyN(1), caps, true, now)
		g.send(now)
		return len(sent) - before
	}
	if n := hello(bpf.CapStamp); n != 0 {
		t.Errorf("the same as before: asked %d times", n)
	}
	if n := hello(bpf.CapStamp | bpf.CapSACK); n != 1 {
		t.Errorf("an engine came: asked %d times", n)
	}
	if !g.answered(keyN(1), bpf.CapStamp|bpf.CapSACK, now) {
		t.Error("other capabilities are no news")
	}
	now += second
	if n := hello(bpf.CapStamp) + hello(bpf.CapStamp); n != 0 {
		t.Errorf("it went a second later: asked %d times at once", n)
	}
	now += uint64(promptPeriod)
	if g.send(now); len(sent) != 3 {
		t.Errorf("asked %d times in all, want 3", len(sent))
	}
}

// Our own capabilities changed: those who know us hear of it at the next tick.
func TestGreeterAnnounces(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	now := 1000 * second
	for i := range 3 {
		g.add(keyN(byte(i)), 0, now)
	}
	g.send(now)
	g.answered(keyN(0), bpf.CapStamp, now)
	g.answered(keyN(1), bpf.CapStamp, now)
	sent = sent[:0]
	now += second / 100
	g.announce(uint32(bpf.CapStamp|bpf.CapSACK), now)
	if g.send(now); len(sent) != 2 || g.origin.Caps != uint32(bpf.CapStamp|bpf.CapSACK) {
		t.Errorf("%d HELLOs, caps %#x", len(sent), g.origin.Caps)
	}
}

func TestGreeterStaticPeer(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	g.add(keyN(1), bpf.CapStatic|bpf.CapStamp, 1000*second)
	if g.send(2000 * second); len(sent) != 0 {
		t.Error("asked a peer whose capabilities are configured")
	}
}

// Destinations that an earlier agent has greeted get their turn within a refresh,
// not all at once, and those that nothing goes to are left alone.
func TestGreeterAdopts(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	g.used = func(peer bpf.DestKey, since uint64) bool { return peer != keyN(200) }
	now := 1000 * second
	for i := range 201 {
		g.adopt(keyN(byte(i)), bpf.CapStamp, now)
	}
	most := 0
	for at := now; at <= now+uint64(helloRefresh); at += second {
		before := len(sent)
		g.send(at)
		most = max(most, len(sent)-before)
	}
	if len(sent) != 200 || most > 30 {
		t.Errorf("%d HELLOs in the first refresh, up to %d in a second; want 200, evenly", len(sent), most)
	}
}
