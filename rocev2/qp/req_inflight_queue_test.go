// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// bareFlight returns n queue pairs with a limiter that ask for room only as the test does.
func bareFlight(n int) (*Flight, []*QP) {
	f, qps := NewFlight(), make([]*QP, n)
	for i := range qps {
		q := New(Config{QPN: uint32(i + 1), Type: verbs.RC, Count: &Counters{}})
		q.state = verbs.StateRTS
		q.SetFlight(&f)
		qps[i] = q
	}
	return &f, qps
}

// request asks for room for a READ and requests it.
func request(q *QP, packets uint32) bool {
	if q.admit(packets, 0) == 0 {
		return false
	}
	q.setInflight(q.inflightPackets + packets)
	return true
}

// The short queue is before a long READ until half the limit was admitted from it, whatever
// the long queue got before while nobody else wanted room; then the long READ collects room.
func TestLongReadTurn(t *testing.T) {
	f, qps := bareFlight(3)
	long, short, other := qps[0], qps[1], qps[2]
	for round := range 3 {
		for range 3 { // nobody else wants room
			if long.setInflight(0); !request(long, maxInflight) {
				t.Fatal("no room for a long READ alone")
			}
		}
		if request(long, maxInflight) || !long.Waits() {
			t.Fatal("a long READ was admitted without room")
		}
		n := uint32(0)
		for other.setInflight(0); request(short, 32); n += 32 {
			short.setInflight(0) // it has the response
			if n > maxInflight {
				break
			}
		}
		if n != maxInflight/2 || !short.Waits() {
			t.Fatalf("round %d: %d packets of short READs were admitted while a long one waited, want %d", round, n, maxInflight/2)
		}
		if f.ServeNext() != nil {
			t.Fatal("somebody is served while the long READ collects room")
		}
		long.setInflight(maxInflight / 2)
		if f.ServeNext() != long || !request(long, maxInflight) {
			t.Fatal("the long READ has collected its room and is not served")
		}
		if f.ServeNext() != nil {
			t.Fatal("a short READ is served without room")
		}
		long.setInflight(maxInflight*3/2 - 32)
		if f.ServeNext() != short || !request(short, 32) {
			t.Fatal("a short READ waits although the turn of the long one has ended")
		}
		short.EndService()
		short.setInflight(0)
	}
}

// Long READs that go before a short WRITE, because the congestion window is full, do not give
// the short queue a claim on more than the last of them.
func TestLongReadsPastTheWindow(t *testing.T) {
	f, qps := bareFlight(3)
	long, write, short := qps[0], qps[1], qps[2]
	f.window, f.bytes = 1, 1
	if write.admit(1, 1024) != 0 || !write.Waits() {
		t.Fatal("the window is full")
	}
	for range 5 {
		if long.setInflight(0); !request(long, maxInflight) {
			t.Fatal("a long READ waits for the window of a WRITE")
		}
	}
	if request(long, maxInflight) {
		t.Fatal("there was room")
	}
	f.window = 0
	long.setInflight(maxInflight / 2)
	if f.ServeNext() != write || write.admit(1, 1024) == 0 {
		t.Fatal("the WRITE has room and is not served")
	}
	write.EndService()
	n := uint32(1)
	for ; request(short, 1); n++ {
		if short.setInflight(0); n > 8*maxInflight {
			break
		}
	}
	if n != maxInflight+maxInflight/2 {
		t.Errorf("%d packets went before the long READ, want %d of the READ before it and half the limit", n, maxInflight)
	}
}

// serveBurst serves the next queue pair for a burst of 64 packets.
func (c *sharedDest) serveBurst() {
	q := c.flight.ServeNext()
	if q == nil {
		return
	}
	p := c.pairs[slices.IndexFunc(c.pairs, func(p *pair) bool { return p.side[0].q == q })]
	for begin, sent := q.req.sndMax, true; sent && q.InService() && q.req.sndMax < begin+64; {
		was := q.req.sndMax
		p.step()
		sent = q.req.sndMax > was
	}
	q.EndService()
}

// Long READs and long WRITEs continue although short READs and WRITEs always wait for room.
// The long READs get at least as many packets as all others, except for the half of the
// limit that these are ahead, and what is outstanding. The other queue serves bursts in turn,
// so that long WRITEs get what short ones get.
func TestLongNextToManyShort(t *testing.T) {
	const shorts, longs, depth, rounds = 8, 2, 8, 6000
	kinds := []struct {
		op      verbs.Op
		packets uint32
		pairs   int
	}{{verbs.OpRead, 64, shorts}, {verbs.OpWrite, 16, shorts}, {verbs.OpRead, 1024, longs}, {verbs.OpWrite, 256, longs}}
	c := newSharedDest(t, 2*(shorts+longs))
	posted := make([]int, len(c.pairs))
	var kind []int // of each pair
	for k := range kinds {
		for range kinds[k].pairs {
			kind = append(kind, k)
		}
	}
	waiting := 0
	for range rounds {
		for i, p := range c.pairs {
			k := kinds[kind[i]]
			for posted[i]-len(p.side[0].cq.got) < depth {
				p.post(&verbs.SendWR{ID: uint64(posted[i]), Op: k.op, Flags: verbs.Signaled, RemoteAddr: dataBase, RKey: dataKey,
					SGL: []verbs.SGE{{Addr: dataBase, Len: k.packets * 256, LKey: dataKey}}})
				posted[i]++
			}
			p.step()
			c.serveBurst()
			c.check(t)
		}
		if c.flight.short.head != nil && c.flight.long.head != nil {
			waiting++
		}
	}
	packets, least := [4]uint32{}, [4]uint32{}
	for i, p := range c.pairs {
		p.wantAll(len(p.side[0].cq.got))
		k := kind[i]
		n := uint32(len(p.side[0].cq.got)) * kinds[k].packets
		if packets[k] += n; least[k] == 0 || n < least[k] {
			least[k] = n
		}
	}
	t.Logf("both queues had queue pairs in %d of %d rounds; packets by kind %d, of the last queue pair %d", waiting, rounds, packets, least)
	if waiting < rounds*9/10 {
		t.Errorf("only in %d of %d rounds both queues had queue pairs", waiting, rounds)
	}
	ahead := uint32(maxInflight/2+shortRead) + maxInflight*3/2 + longs*1024
	if others := packets[0] + packets[1] + packets[3]; packets[2]+ahead < others {
		t.Errorf("%d packets of long READs, and %d of others", packets[2], others)
	}
	if least[2] == 0 || least[3]+256 < least[1] || packets[0] == 0 || least[1] == 0 {
		t.Errorf("packets by kind %d, of the last queue pair %d", packets, least)
	}
}
