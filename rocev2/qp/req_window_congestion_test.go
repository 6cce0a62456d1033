// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// All queue pairs together have no more bytes in flight than the window and the packet that
// filled it. However small the window is, one packet may be sent, and all make progress.
func TestCongestionWindow(t *testing.T) {
	const full = 256 + frameOverhead
	for _, window := range []uint64{1, 5*full + 1, 100_000} {
		for _, n := range []int{1, 16} {
			for _, lost := range []float64{0, 0.02} {
				t.Run(fmt.Sprintf("%d/%d/%v", window, n, lost), func(t *testing.T) {
					c := newSharedDest(t, n)
					c.flight.SetWindow(window)
					if lost != 0 {
						for i, p := range c.pairs {
							p.lossy(uint64(i), lost)
						}
					}
					_, slowest := c.transfer(t, verbs.OpWrite, 10, 3000)
					if c.mostBytes >= window+full {
						t.Errorf("%d bytes in flight, want less than %d and a packet of %d", c.mostBytes, window, full)
					}
					if n > 1 && slowest < 3 {
						t.Errorf("when one had done 10 messages another had done %d", slowest)
					}
					if f := &c.flight; f.bytes != 0 || f.Waiting() {
						t.Errorf("left over: %+v", f)
					}
				})
			}
		}
	}
}

// Small messages count with their frame size, not as full packets.
func TestCongestionWindowSmall(t *testing.T) {
	c := newSharedDest(t, 1)
	c.pairs[0].delay = 1e6
	c.flight.SetWindow(20 * (10 + frameOverhead))
	if most, _ := c.transfer(t, verbs.OpWrite, 200, 10); most != 20 {
		t.Errorf("%d messages in flight, want 20", most)
	}
}

// READs request data in the other direction: the window does not limit them.
func TestCongestionWindowReads(t *testing.T) {
	c := newSharedDest(t, 1)
	c.flight.SetWindow(1)
	if most, _ := c.transfer(t, verbs.OpRead, 4, 64<<10); most < 200 || c.mostBytes != 0 {
		t.Errorf("%d answers and %d bytes in flight, want all of a READ and none", most, c.mostBytes)
	}
}

// A new window counts at once: with a smaller one nothing is sent until the bytes in flight
// have fallen below it; without one everything may be sent.
func TestCongestionWindowChanges(t *testing.T) {
	c := newSharedDest(t, 1)
	p := c.pairs[0]
	p.delay = 1e6 // no ACK yet
	p.post(&verbs.SendWR{Op: verbs.OpWrite, RemoteAddr: dataBase, RKey: dataKey, SGL: []verbs.SGE{{Addr: dataBase, Len: 1 << 20, LKey: dataKey}}})
	fill := func(window uint64) (packets int) {
		c.flight.SetWindow(window)
		c.flight.ServeNext()
		for p.side[0].q.NextData(p.now, &p.out) {
			packets++
		}
		return packets
	}
	const full = 256 + frameOverhead
	for i, step := range []struct {
		window uint64
		want   int
	}{{10 * full, 10}, {5 * full, 0}, {12 * full, 2}, {0, initialWindow - 12}} {
		if got := fill(step.window); got != step.want {
			t.Errorf("step %d: %d packets, want %d", i, got, step.want)
		}
		if waits := p.side[0].q.Waits(); waits != (step.window != 0) {
			t.Errorf("step %d: it waits for room: %v", i, waits)
		}
	}
	// Packets with another permission bypass the window, and are counted.
	p.side[0].q.req.window.size = maxWindow
	c.flight.SetWindow(1)
	c.flight.BypassWindow(true)
	before := c.flight.Bytes()
	if !p.side[0].q.NextData(p.now, &p.out) || c.flight.Bytes() != before+full {
		t.Errorf("past the window: %d bytes, then %d", before, c.flight.Bytes())
	}
}

// A window that becomes smaller than what is in flight leaves no room for the packet that
// would have requested an ACK. Then a probe does.
func TestCongestionWindowShrinks(t *testing.T) {
	const full = 256 + frameOverhead
	for _, c := range []struct {
		name  string
		first uint32 // bytes of the first message; with 5 packets no packet requests an ACK at its end
	}{{"in a message", 20 * 256}, {"after a message", 5 * 256}} {
		t.Run(c.name, func(t *testing.T) {
			d := newSharedDest(t, 2, func(cfg *Config, _ *verbs.Attr) { cfg.AckPackets = 64 })
			d.flight.SetWindow(100 * full)
			write := func(p *pair, id uint64, n uint32) {
				p.post(&verbs.SendWR{ID: id, Op: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: dataBase, RKey: dataKey, SGL: []verbs.SGE{{Addr: dataBase, Len: n, LKey: dataKey}}})
			}
			p, head := d.pairs[0], d.pairs[1]
			p.noDelayedAck = true
			write(p, 0, c.first)
			write(p, 1, 20*256)
			for range 5 {
				if p.send(0); p.out.AckReq {
					t.Fatal("a packet requested an ACK, so that the test shows nothing")
				}
			}
			d.flight.SetWindow(full)
			write(head, 0, 1) // it has nothing in flight when it becomes the head of the queue
			head.send(0)
			r := rand.New(rand.NewPCG(2, 9))
			for range 1000 {
				d.stepAll(r)
			}
			p.wantAll(2)
			head.wantAll(1)
			if n := p.side[0].count.SentAgain; n != 1 {
				t.Errorf("%d packets were sent again, want one probe", n)
			}
		})
	}
}

// However the window changes, all messages arrive, and few packets are sent twice.
func TestCongestionWindowVaries(t *testing.T) {
	const full = 256 + frameOverhead
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(3, seed))
		n := 1 + r.IntN(20)
		c := newSharedDest(t, n, func(cfg *Config, _ *verbs.Attr) { cfg.AckPackets = 64 })
		for _, p := range c.pairs {
			p.noDelayedAck = seed%2 == 0
			for i := range 10 {
				p.post(&verbs.SendWR{ID: uint64(i), Op: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: dataBase, RKey: dataKey,
					SGL: []verbs.SGE{{Addr: dataBase, Len: uint32(r.IntN(20_000)), LKey: dataKey}}})
			}
		}
		for done := false; !done && c.pairs[0].now < 60e9 && c.stepAll(r); {
			if r.IntN(20) == 0 {
				c.flight.SetWindow(uint64(1 + r.IntN(1+r.IntN(100*full))))
			}
			c.check(t)
			done = !slices.ContainsFunc(c.pairs, func(p *pair) bool { return len(p.side[0].cq.got) < 10 })
		}
		sent, again := uint64(0), uint64(0)
		for i, p := range c.pairs {
			if got := len(p.side[0].cq.got); got != 10 {
				t.Errorf("seed %d: queue pair %d of %d: %d messages of 10 arrived: %v", seed, i, n, got, p.side[0].q.SendLimit(p.now))
			}
			sent, again = sent+p.side[0].count.SentPackets, again+p.side[0].count.SentAgain
		}
		if again*10 > sent { // a change of the window in 20 events takes many ACKs away
			t.Errorf("seed %d: %d of %d packets were sent again", seed, again, sent)
		}
	}
}

// The packet that fills the window requests an ACK, whichever queue pair sends it.
func TestCongestionWindowAckReq(t *testing.T) {
	const full = 256 + frameOverhead
	c := newSharedDest(t, 3)
	c.flight.SetWindow(20 * full)
	r := rand.New(rand.NewPCG(2, 5))
	for _, p := range c.pairs {
		p.post(&verbs.SendWR{Op: verbs.OpWrite, RemoteAddr: dataBase, RKey: dataKey, SGL: []verbs.SGE{{Addr: dataBase, Len: 1 << 20, LKey: dataKey}}})
	}
	asked, sent := false, 0
	for range 1000 {
		p := c.pairs[r.IntN(3)]
		if p.side[0].q.NextData(p.now, &p.out) {
			asked = p.out.AckReq
			sent++
		}
	}
	if sent != 20 || !asked {
		t.Errorf("%d packets, want 20; the last one asked: %v", sent, asked)
	}
}

// A queued queue pair is served before later ones, however often those are called.
func TestCongestionWindowTurns(t *testing.T) {
	const full = 256 + frameOverhead
	c := newSharedDest(t, 2)
	c.flight.SetWindow(10 * full)
	for _, p := range c.pairs {
		p.post(&verbs.SendWR{Op: verbs.OpWrite, RemoteAddr: dataBase, RKey: dataKey, SGL: []verbs.SGE{{Addr: dataBase, Len: 1 << 20, LKey: dataKey}}})
	}
	greedy, other := c.pairs[0], c.pairs[1]
	more := func(p *pair) bool { return p.side[0].q.NextData(p.now, &p.out) }
	next := func(p *pair) bool { return c.flight.ServeNext() == p.side[0].q }
	for range 10 {
		more(greedy)
	}
	if more(other) {
		t.Fatal("there was room")
	}
	if next(other) {
		t.Fatal("a queue pair is served without room")
	}
	greedy.side[0].q.req.onAcked(0, 2)
	if more(greedy) {
		t.Error("the greedy one goes on although the other waits")
	}
	if !next(other) || more(greedy) || !more(other) {
		t.Error("the other one does not get the room")
	}
	other.side[0].q.EndService()
	if !next(greedy) || !more(greedy) {
		t.Error("what the other one leaves is not for who waits behind it")
	}
	// A queue pair that is being served and finds no room becomes the head again.
	if more(other) || more(greedy) || greedy.side[0].q.InService() {
		t.Error("there was room")
	}
	greedy.side[0].q.req.onAcked(0, 3)
	if !next(greedy) {
		t.Error("the one that was served is not the head of the queue")
	}
}
