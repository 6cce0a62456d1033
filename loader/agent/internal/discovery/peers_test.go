// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
)

// lab is the state of some peers and the HELLOs that were due.
type lab struct {
	*Peers
	sent []bpf.DestKey
	used func(bpf.DestKey, uint64) bool
}

func newLab() *lab {
	return &lab{Peers: New(rand.New(rand.NewPCG(1, 2)).Uint64N), used: func(bpf.DestKey, uint64) bool { return true }}
}

// send sends what is due, and returns the peers that are lost.
func (l *lab) send(now uint64) (lost []bpf.DestKey) {
	ask, lost := l.Due(now, l.used)
	l.sent = append(l.sent, ask...)
	return lost
}

// onHello sends the HELLO that a peer's HELLO causes at once.
func (l *lab) onHello(key bpf.DestKey, caps uint16, proven bool, now uint64) {
	if l.OnHello(key, caps, proven, now) {
		l.sent = append(l.sent, key)
	}
}

func keyN(n byte) bpf.DestKey { return bpf.KeyOf(netip.AddrFrom4([4]byte{10, 0, 0, n})) }

// second is one of the monotonic clock.
const second = uint64(time.Second)

// HELLOs to a peer that does not answer become ever less frequent.
func TestBackoff(t *testing.T) {
	g := newLab()
	start := 1000 * second
	g.Add(keyN(1), 0, start)
	var at []time.Duration
	for now := start; now < start+180*second; now += second / 100 {
		before := len(g.sent)
		g.send(now)
		if len(g.sent) > before {
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

// HELLOs whose answers measured nothing are repeated soon, but not for ever.
func TestRepeat(t *testing.T) {
	g := newLab()
	start := 1000 * second
	g.Add(keyN(1), 0, start)
	for now := start; now < start+second; now += second / 1000 {
		before := len(g.sent)
		if g.send(now); len(g.sent) > before {
			g.OnAck(keyN(1), bpf.CapStamp, now+500_000)
			g.Repeat(keyN(1), now+500_000)
			g.Repeat(keyN(2), now)
		}
	}
	if len(g.sent) != 1+maxRepeats {
		t.Errorf("sent %d HELLOs, want %d", len(g.sent), 1+maxRepeats)
	}
}

// A peer that answered is asked again, and lost after some refreshes without an answer.
func TestLost(t *testing.T) {
	g := newLab()
	now := 1000 * second
	g.Add(keyN(1), 0, now)
	g.send(now)
	if !g.OnAck(keyN(1), bpf.CapStamp, now) {
		t.Error("the first answer is no change")
	}
	if g.OnAck(keyN(1), bpf.CapStamp, now) {
		t.Error("the second answer is a change")
	}
	if g.OnAck(keyN(2), bpf.CapStamp, now) {
		t.Error("the answer of an unknown peer is a change")
	}
	var lost []bpf.DestKey
	for i := range 10 {
		lost = append(lost, g.send(now+uint64(i+1)*2*uint64(Refresh))...)
	}
	if len(lost) != 1 || lost[0] != keyN(1) {
		t.Errorf("lost %v, want it once", lost)
	}
}

func TestMaxPerCall(t *testing.T) {
	g := newLab()
	now := 1000 * second
	for i := range 200 {
		g.Add(keyN(byte(i)), 0, now)
	}
	g.send(now)
	if len(g.sent) != maxPerCall {
		t.Errorf("%d HELLOs in a call, want %d", len(g.sent), maxPerCall)
	}
}

// HELLOs of addresses without an entry: without the token of this host nothing is sent and
// nothing stored. With it the peer is asked, and still nothing is stored. With a bound on
// such peers, 256 forged HELLOs would keep out all others.
func TestForgedHello(t *testing.T) {
	g := newLab()
	now := 1000 * second
	for i := range 512 {
		g.onHello(bpf.KeyOf(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})), bpf.CapStamp, false, now)
	}
	if g.send(now); len(g.sent) != 0 || g.Len() != 0 {
		t.Errorf("forged: %d HELLOs sent, %d peers stored", len(g.sent), g.Len())
	}
	g.onHello(keyN(1), bpf.CapStamp, true, now)
	if g.send(now); len(g.sent) != 1 || g.sent[0] != keyN(1) || g.Len() != 0 {
		t.Errorf("genuine: HELLOs to %v, %d peers stored", g.sent, g.Len())
	}
}

// A peer that was attached anew has neither the token of this host nor its own old one.
func TestPeerWithoutToken(t *testing.T) {
	g := newLab()
	now := 1000 * second
	g.Add(keyN(1), bpf.CapStamp, now)
	g.send(now)
	g.OnAck(keyN(1), bpf.CapStamp, now)
	g.onHello(keyN(1), bpf.CapStamp, true, now)
	if g.send(now); len(g.sent) != 1 {
		t.Errorf("it has the token: asked %d times, want 1", len(g.sent))
	}
	g.onHello(keyN(1), bpf.CapStamp, false, now)
	if g.send(now); len(g.sent) != 2 {
		t.Errorf("it does not have the token: asked %d times, want 2", len(g.sent))
	}
}

// Two hosts whose answers get lost must not flood each other with HELLOs.
func TestHelloFlood(t *testing.T) {
	g := newLab()
	now := 1000 * second
	g.Add(keyN(1), 0, now)
	for i := range 1000 { // ten seconds in which the peer's HELLO comes every 10 ms
		at := now + uint64(i)*second/100
		g.onHello(keyN(1), bpf.CapStamp, true, at)
		g.send(at)
	}
	if len(g.sent) > 12 {
		t.Errorf("%d HELLOs in ten seconds", len(g.sent))
	}
}

// An engine that starts and ends at the peer causes one HELLO each time, and at most
// maxReplies in a period.
func TestCapsOfPeerChange(t *testing.T) {
	g := newLab()
	now := 1000 * second
	g.Add(keyN(1), bpf.CapStamp, now)
	g.send(now)
	g.OnAck(keyN(1), bpf.CapStamp, now)
	hello := func(caps uint16) int {
		before := len(g.sent)
		g.onHello(keyN(1), caps, true, now)
		g.send(now)
		return len(g.sent) - before
	}
	if n := hello(bpf.CapStamp); n != 0 {
		t.Errorf("the same as before: asked %d times", n)
	}
	if n := hello(bpf.CapStamp | bpf.CapSACK); n != 1 {
		t.Errorf("an engine came: asked %d times", n)
	}
	if !g.OnAck(keyN(1), bpf.CapStamp|bpf.CapSACK, now) {
		t.Error("other capabilities are no change")
	}
	caps := bpf.CapStamp | bpf.CapSACK
	for i := 1; i < maxReplies; i++ {
		now += second / 100
		caps ^= bpf.CapSACK
		if n := hello(caps); n != 1 {
			t.Errorf("change %d within a second: asked %d times", i, n)
		}
		g.OnAck(keyN(1), caps, now)
	}
	caps ^= bpf.CapSACK
	now += second
	if n := hello(caps) + hello(caps); n != 0 {
		t.Errorf("change %d: asked %d times at once", maxReplies, n)
	}
	before := len(g.sent)
	now += uint64(replyPeriod)
	if g.send(now); len(g.sent) != before+1 {
		t.Errorf("asked %d times after the period, want 1", len(g.sent)-before)
	}
	g.OnAck(keyN(1), caps, now)
	for i := range 2 * maxReplies { // the HELLO that was late began a period
		now++
		caps ^= bpf.CapSACK
		if got, want := hello(caps), i < maxReplies-1; got == 1 != want {
			t.Errorf("change %d of the next period: asked %d times", i, got)
		}
		g.OnAck(keyN(1), caps, now)
	}
}

// Changed capabilities are announced to the peers that understand the option.
func TestAnnounce(t *testing.T) {
	g := newLab()
	now := 1000 * second
	for i := range 3 {
		g.Add(keyN(byte(i)), 0, now)
	}
	g.send(now)
	g.OnAck(keyN(0), bpf.CapStamp, now)
	g.OnAck(keyN(1), bpf.CapStamp, now)
	g.sent = g.sent[:0]
	now += second / 100
	g.Announce(now)
	if g.send(now); len(g.sent) != 2 {
		t.Errorf("%d HELLOs, want 2", len(g.sent))
	}
}

func TestStaticPeer(t *testing.T) {
	g := newLab()
	g.Add(keyN(1), bpf.CapStatic|bpf.CapStamp, 1000*second)
	if g.send(2000 * second); len(g.sent) != 0 {
		t.Error("asked a peer whose capabilities are configured")
	}
}

// Adopted peers are asked within a refresh, evenly, and those without traffic are not.
func TestAdopt(t *testing.T) {
	g := newLab()
	g.used = func(peer bpf.DestKey, since uint64) bool { return peer != keyN(200) }
	now := 1000 * second
	for i := range 201 {
		g.Adopt(keyN(byte(i)), bpf.CapStamp, now)
	}
	most := 0
	for at := now; at <= now+uint64(Refresh); at += second {
		before := len(g.sent)
		g.send(at)
		most = max(most, len(g.sent)-before)
	}
	if len(g.sent) != 200 || most > 30 {
		t.Errorf("%d HELLOs in the first refresh, up to %d in a second; want 200, evenly", len(g.sent), most)
	}
}
