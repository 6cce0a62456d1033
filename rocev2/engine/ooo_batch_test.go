// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// runOrder posts messages of 16 KiB, a few at a time, and runs the engine with a pause before each iteration
// until all have completed. It returns the number of iterations.
func (p *oooPair) runOrder(messages, outstanding int, pause func() time.Duration) (iterations int) {
	p.t.Helper()
	done := 0
	for first := p.sent; done < messages; iterations++ {
		for p.sent-first < messages && p.sent-first-done < outstanding {
			p.order(uint64(p.sent), verbs.OpWrite, 0, 16<<10)
		}
		if err := p.iterate(pause()); err != nil {
			p.t.Fatal(err)
		}
		n := p.cq.take(p.batch[:])
		for _, c := range p.batch[:n] {
			if c.Status != verbs.StatusSuccess {
				p.t.Fatalf("%+v", c)
			}
		}
		if done += n; iterations > 1_000_000 {
			p.t.Fatalf("%d of %d messages have completed", done, messages)
		}
	}
	return iterations
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// An engine that is busy takes packets in batches, so that each answer is later than those of an idle one. That is
// no queue of the network: the windows stay open, and an iteration sends a batch. The target answers a batch by a few
// OACKs.
func TestOutOfOrderBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newOOOPair(t, 13, 64)
		p.link = link{stamps: true, delay: 10 * time.Microsecond}
		p.runOrder(100, 8, always(5*time.Microsecond)) // round trips of an idle engine
		const messages = 500
		n := p.runOrder(messages, 32, always(300*time.Microsecond))
		if packets := 16 * messages; packets/n < 32 {
			t.Errorf("%d packets in %d iterations", packets, n)
		}
		if c := p.e.ooo.count; c.Merged < c.Placed*3/4 {
			t.Errorf("%d packets were placed, and %d OACKs of them not sent", c.Placed, c.Merged)
		}
	})
}

// A stall of both ends, as when their threads share a processor with others, is no loss. After a long one some packets
// are sent again, at most one of each of the 16 paths, and not the whole window. No path is to blame for it.
func TestOutOfOrderStall(t *testing.T) {
	for stall, again := range map[time.Duration]int{3 * time.Millisecond: 0, 30 * time.Millisecond: 16} {
		synctest.Test(t, func(t *testing.T) {
			p := newOOOPair(t, 14, 64)
			p.link = link{stamps: true, delay: 10 * time.Microsecond}
			i, stalls := 0, 0
			p.runOrder(1000, 32, func() time.Duration {
				if i++; i%100 == 0 {
					stalls++
					return stall
				}
				return 5 * time.Microsecond
			})
			c := p.e.ooo.count
			if lost := int(c.Resent - c.Probes); stalls == 0 || lost > again*stalls || c.PathsReplaced != 0 {
				t.Errorf("%d stalls of %s: %d packets were sent again besides probes, %d paths replaced", stalls, stall, lost, c.PathsReplaced)
			}
		})
	}
}
