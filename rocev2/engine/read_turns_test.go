// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A READ of 32 KB next to queue pairs with long READs. While it waits for room, no long READ is
// admitted, and 32 packets that arrive make room for it. Then the responder serves all queue
// pairs by turns: 32 KB take two quanta, and the turns may begin in the middle of a round.
func TestShortReadNextToLongOnes(t *testing.T) {
	for _, streams := range []int{1, 2, 8} {
		t.Run(fmt.Sprint(streams), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { shortReads(t, streams) })
		})
	}
}

func shortReads(t *testing.T, streams int) {
	const (
		long, short, rate = 1 << 20, 32 << 10, 100_000_000
		packets           = short / 1024
		frame             = etherLen + rocev2.PMTUOverhead + 1024
		quanta            = short/quantum + 1
	)
	bound := time.Duration(packets*frame+quanta*(streams+1)*(quantum+frame)) * 8 * time.Second / rate
	l := newLoopback(t, 1)
	for range streams + 1 {
		l.connect(verbs.RC, rocev2.PMTU1024, 64)
	}
	l.e.dests.rails[0].dests[us].setRate(l.e, rate)
	for _, s := range l.qps[:streams] {
		for range 64 {
			l.post(s, verbs.OpRead, long)
		}
	}
	until := func(what string, done func() bool) time.Duration {
		begin := time.Now()
		for !done() {
			if err := l.iterate(100 * time.Microsecond); err != nil {
				t.Fatal(err)
			}
			l.drainTo(t)
			if time.Since(begin) > time.Minute {
				t.Fatalf("%s: not after a virtual minute", what)
			}
		}
		return time.Since(begin)
	}
	x, longest := l.qps[streams], time.Duration(0)
	for i := range 20 {
		pause := time.Duration(l.rand.IntN(200)) * time.Millisecond
		begin := time.Now()
		until("pause", func() bool { return time.Since(begin) >= pause })
		before := l.done[x.num]
		l.post(x, verbs.OpRead, short)
		longest = max(longest, until(fmt.Sprintf("READ %d", i), func() bool { return l.done[x.num] > before }))
	}
	t.Logf("at most %v, bound %v", longest, bound)
	if longest > bound {
		t.Errorf("32 KB took %v, want at most %v", longest, bound)
	}
	if l.done[l.qps[0].num] == 64 {
		t.Error("the long READs have come to their end before the short ones")
	}
}

// drainTo counts what has completed.
func (l *loopback) drainTo(t *testing.T) {
	for _, c := range l.batch[:l.cq.take(l.batch[:])] {
		l.done[c.QPN]++
		if c.Status != verbs.StatusSuccess {
			t.Fatalf("%+v", c)
		}
	}
}
