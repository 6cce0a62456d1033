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
func newTestGreeter(sent *[]netip.Addr) *greeter {
	g := &greeter{log: slog.New(slog.DiscardHandler), peers: map[netip.Addr]*greeting{}, fd4: -1, fd6: -1}
	g.transmit = func(peer netip.Addr, nonce uint64, _ builder) error {
		*sent = append(*sent, peer)
		return nil
	}
	return g
}

func peerN(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

// A peer that does not answer hears from us ever less.
func TestGreeterBacksOff(t *testing.T) {
	var sent []netip.Addr
	g := newTestGreeter(&sent)
	start := time.Unix(1000, 0)
	g.add(peerN(1), 7, 0, start)
	var at []time.Duration
	for now := start; now.Before(start.Add(3 * time.Minute)); now = now.Add(10 * time.Millisecond) {
		before := len(sent)
		g.send(now)
		if len(sent) > before {
			at = append(at, now.Sub(start))
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

// One that answered is asked again, and given up after some silence.
func TestGreeterLosesPeer(t *testing.T) {
	var sent []netip.Addr
	g := newTestGreeter(&sent)
	now := time.Now()
	g.add(peerN(1), 7, 0, now)
	g.send(now)
	if !g.answered(peerN(1)) {
		t.Error("the first answer is no news")
	}
	if g.answered(peerN(1)) {
		t.Error("the second answer is news")
	}
	if g.answered(peerN(2)) {
		t.Error("an answer of nobody is news")
	}
	var lost []netip.Addr
	for i := range 10 {
		lost = append(lost, g.send(now.Add(time.Duration(i+1)*2*helloRefresh))...)
	}
	if len(lost) != 1 || lost[0] != peerN(1) {
		t.Errorf("lost %v, want it once", lost)
	}
}

func TestGreeterLimits(t *testing.T) {
	var sent []netip.Addr
	g := newTestGreeter(&sent)
	now := time.Unix(1000, 0)
	for i := range 200 {
		g.add(peerN(byte(i)), 7, 0, now)
	}
	g.send(now)
	if len(sent) != helloPerTick {
		t.Errorf("%d HELLOs in a tick, want %d", len(sent), helloPerTick)
	}

	// Strangers: so many at once, forgotten when they do not answer.
	g = newTestGreeter(&sent)
	for i := range 2 * strangersLimit {
		g.prompt(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), now)
	}
	if len(g.peers) != strangersLimit {
		t.Errorf("%d strangers, want %d", len(g.peers), strangersLimit)
	}
	for i := range 1000 {
		g.send(now.Add(time.Duration(i) * 100 * time.Millisecond))
	}
	if len(g.peers) != 0 || len(g.queue) != 0 || g.guests != 0 {
		t.Errorf("%d strangers left, %d queued, %d counted", len(g.peers), len(g.queue), g.guests)
	}
}

// Two hosts whose answers get lost must not prompt each other without end.
func TestGreeterPromptIsNoVolley(t *testing.T) {
	var sent []netip.Addr
	g := newTestGreeter(&sent)
	now := time.Unix(1000, 0)
	g.add(peerN(1), 7, 0, now)
	for i := range 1000 { // ten seconds in which the peer's HELLO comes every 10 ms
		at := now.Add(time.Duration(i) * 10 * time.Millisecond)
		g.prompt(peerN(1), at)
		g.send(at)
	}
	if len(sent) > 12 {
		t.Errorf("%d HELLOs in ten seconds", len(sent))
	}
}

func TestGreeterStranger(t *testing.T) {
	var sent []netip.Addr
	g := newTestGreeter(&sent)
	now := time.Unix(1000, 0)
	g.prompt(peerN(1), now)
	nonce := g.peers[peerN(1)].nonce
	if g.genuine(peerN(1), nonce+1) || g.genuine(peerN(2), nonce) || !g.genuine(peerN(1), nonce) {
		t.Error("only our nonce from its address is genuine")
	}
	g.add(peerN(1), nonce, bpf.CapStamp, now) // the entry was made
	if g.guests != 0 || g.genuine(peerN(1), nonce) {
		t.Error("still a stranger")
	}
	g.remove(peerN(1))
	if len(g.queue) != 0 {
		t.Error("still queued")
	}
}

func TestGreeterStaticPeer(t *testing.T) {
	var sent []netip.Addr
	g := newTestGreeter(&sent)
	g.add(peerN(1), 7, bpf.CapStatic|bpf.CapStamp, time.Unix(1000, 0))
	if g.send(time.Unix(2000, 0)); len(sent) != 0 {
		t.Error("asked a peer whose capabilities are configured")
	}
}
