// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/softroce/softroce-xdp/internal/tokenbucket"
)

// The bucket of bpf/lib/pace.h gives the same results (bpf/pace_test.go).
func TestVectors(t *testing.T) {
	const start, frame = int64(1e9), 124
	for _, v := range tokenbucket.All {
		var b bucket
		if v.FrameNs != 0 {
			b = newBucket(uint64(frame * nsPerByte / v.FrameNs))
		}
		for i, p := range v.Packets {
			leaves := start + p.At
			if !b.Ready(leaves) {
				leaves = b.Next()
			}
			if leaves != start+p.Leaves {
				t.Errorf("%s: packet %d leaves at %d, want %d", v.Name, i, leaves-start, p.Leaves)
			}
			b.Consume(start+p.At, v.BurstNs, frame)
		}
		if b.Rate() != 0 && b.Next() != start+v.EmptyNs {
			t.Errorf("%s: empty at %d, want %d", v.Name, b.Next()-start, v.EmptyNs)
		}
	}
}

// The rate, no more than a burst after a pause, and a new rate.
func TestBucket(t *testing.T) {
	const burst = 4e6
	now := int64(1e12)
	b := newBucket(8e9) // a byte a ns
	send := func(until int64) (n int) {
		for ; now < until; now += 10 {
			for b.Ready(now) {
				b.Consume(now, burst, 1000)
				n += 1000
			}
		}
		return n
	}
	if n := send(now + 10e6); n < 14e6 || n > 14e6+2000 {
		t.Errorf("%d bytes in 10 ms after a pause, want 14e6", n)
	}
	b.SetRate(now, 4e9)
	if n := send(now + 10e6); n < 5e6-2000 || n > 5e6+2000 {
		t.Errorf("%d bytes in 10 ms at half the rate", n)
	}
	b.SetRate(now, 1) // 8 s a byte
	b.Consume(now, burst, 1)
	b.SetRate(now, 8e9)
	if wait := b.Next() - now; wait > 1e6 {
		t.Errorf("waits %d ns for one byte", wait)
	}
	b.Consume(now, burst, 1e6)
	if b.SetRate(now, 0); !b.Ready(now) || b.Next() > now {
		t.Error("waits without a rate")
	}
}

// What was missed at a rate that the machine cannot carry would be added to a lower one
// for seconds.
func TestLagNotOwedAtALowerRate(t *testing.T) {
	for rate, want := range map[uint64]int64{1e9: 0, 20e9: 5e6, 30e9: 5e6} {
		b := bucket{rate: 20e9, lag: 5e6}
		if b.SetRate(1e9, rate); b.Lag() != want {
			t.Errorf("at %d: lag %v, want %v", rate, b.Lag(), want)
		}
	}
}

// A thread that runs 24 ms late, which is 20 more than the burst: if data waited, the
// rate is 1/40 higher until that is made up for; if there was none, nothing is due.
func TestLag(t *testing.T) {
	const frame, cost, burst = 1250, int64(1e6), int64(4e6) // at 10 Mbit/s
	for _, idle := range []bool{false, true} {
		now, b := int64(1e9), newBucket(10e6)
		for b.Ready(now) { // the burst of a destination that was idle
			b.Consume(now, burst, frame)
		}
		if b.Lag() != 0 || b.Next() != now+cost {
			t.Fatalf("at first: empty in %v, lag %v", b.Next()-now, b.Lag())
		}
		if idle {
			b.Idle()
		}
		now = b.Next() + 24e6
		n, start := 0, now
		for now < start+2e9 {
			if b.Ready(now) {
				b.Consume(now, burst, frame)
				n++
			} else {
				now = b.Next()
			}
		}
		// Of 2 s and the burst; 2 s are enough to make up for 20 ms.
		want := 2004
		if !idle {
			want += 20
		}
		if n < want || n > want+2 || b.Lag() != 0 {
			t.Errorf("idle %t: %d packets, want %d; lag %v", idle, n, want, b.Lag())
		}
	}
}

func TestBucketNoAllocations(t *testing.T) {
	b, now := newBucket(1e9), int64(0)
	if n := testing.AllocsPerRun(100, func() { now += 10; b.Ready(now); b.Consume(now, 0, 1500) }); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}

// The wait of a packet is that of its bytes at the rate in force.
func TestWaitFollowsTheRate(t *testing.T) {
	const now, wait = int64(1e9), int64(1e6)
	for rate, want := range map[uint64]int64{4e6: 2 * wait, 8e6: wait, 32e6: wait / 4} {
		b := newBucket(8e6) // 1 us a byte
		b.Consume(now, 0, 1000)
		if b.SetRate(now, rate); b.Next()-now != want {
			t.Errorf("%d bit/s: waits %d ns, want %d", rate, b.Next()-now, want)
		}
	}
}
