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
	g.add(keyN(1), 7, 0, start)
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
	g.add(keyN(1), 7, 0, start)
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

// A stranger whose HELLO we have answered with one becomes a destination before it
// answers: its entry has a nonce of its own, so it is asked at once with that. It used to
// be five seconds until the next HELLO.
func TestGreeterStrangerBecomesDestination(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	now := 1000 * second
	g.prompt(keyN(1), 0, now)
	g.send(now)
	g.add(keyN(1), 7, 0, now+1)
	g.send(now + 2)
	if x := g.peers[keyN(1)]; len(sent) != 2 || x.nonce != 7 || x.stranger {
		t.Errorf("%d HELLOs, %+v", len(sent), x)
	}
}

// One that answered is asked again, and given up after some silence.
func TestGreeterLosesPeer(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	now := 1000 * second
	g.add(keyN(1), 7, 0, now)
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
		g.add(keyN(byte(i)), 7, 0, now)
	}
	g.send(now)
	if len(sent) != helloPerTick {
		t.Errorf("%d HELLOs in a tick, want %d", len(sent), helloPerTick)
	}

	// Strangers: so many at once, forgotten when they do not answer.
	g = newTestGreeter(&sent)
	for i := range 2 * strangersLimit {
		g.prompt(bpf.KeyOf(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})), bpf.CapStamp, now)
	}
	if len(g.peers) != strangersLimit {
		t.Errorf("%d strangers, want %d", len(g.peers), strangersLimit)
	}
	for i := range 1000 {
		g.send(now + uint64(i)*second/10)
	}
	if len(g.peers) != 0 || len(g.queue) != 0 || g.guests != 0 {
		t.Errorf("%d strangers left, %d queued, %d counted", len(g.peers), len(g.queue), g.guests)
	}
}

// Two hosts whose answers get lost must not prompt each other without end.
func TestGreeterPromptIsNoVolley(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	now := 1000 * second
	g.add(keyN(1), 7, 0, now)
	for i := range 1000 { // ten seconds in which the peer's HELLO comes every 10 ms
		at := now + uint64(i)*second/100
		g.prompt(keyN(1), bpf.CapStamp, at)
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
	g.add(keyN(1), 7, bpf.CapStamp, now)
	g.send(now)
	g.answered(keyN(1), bpf.CapStamp, now)
	hello := func(caps uint16) int {
		before := len(sent)
		g.prompt(keyN(1), caps, now)
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
		g.add(keyN(byte(i)), 7, 0, now)
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

func TestGreeterStranger(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	now := 1000 * second
	g.prompt(keyN(1), bpf.CapStamp, now)
	nonce := g.peers[keyN(1)].nonce
	if g.genuine(keyN(1), nonce+1) || g.genuine(keyN(2), nonce) || !g.genuine(keyN(1), nonce) {
		t.Error("only our nonce from its address is genuine")
	}
	g.add(keyN(1), nonce, bpf.CapStamp, now) // the entry was made
	if g.guests != 0 || g.genuine(keyN(1), nonce) {
		t.Error("still a stranger")
	}
	g.remove(keyN(1))
	if len(g.queue) != 0 {
		t.Error("still queued")
	}
}

func TestGreeterStaticPeer(t *testing.T) {
	var sent []bpf.DestKey
	g := newTestGreeter(&sent)
	g.add(keyN(1), 7, bpf.CapStatic|bpf.CapStamp, 1000*second)
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
		g.adopt(keyN(byte(i)), 7, bpf.CapStamp, now)
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
