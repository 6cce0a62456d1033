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

// However many queue pairs have much to send to one destination, all of them get on alike, and
// nothing is sent twice as long as nothing is lost: their answers wait for each other's, and for
// hosts that stop for a while.
func TestManyQueuePairsSendOnce(t *testing.T) {
	for name, op := range map[string]verbs.Op{"WRITE": verbs.OpWrite, "SEND": verbs.OpSend, "READ": verbs.OpRead} {
		for _, pairs := range []int{1, 100, 1000} {
			for _, pmtu := range []rocev2.PMTU{rocev2.PMTU1024, rocev2.PMTU4096} {
				for _, stall := range []time.Duration{0, 30 * time.Millisecond, 100 * time.Millisecond} {
					t.Run(fmt.Sprintf("%s/%d/%d/stall=%v", name, pairs, pmtu.Bytes(), stall), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { sendOnce(t, op, pairs, pmtu, stall) })
					})
				}
			}
		}
	}
}

func sendOnce(t *testing.T, op verbs.Op, pairs int, pmtu rocev2.PMTU, stall time.Duration) {
	const depth, size = 16, 4096
	l := newLoopback(t, 1)
	l.link = link{rate: 10e9, delay: 20 * time.Microsecond, frames: 2048}
	rounds := max(1, 2000/pairs/depth) * depth
	for range pairs {
		l.connect(verbs.RC, pmtu, rounds)
	}
	each := 1
	if op == verbs.OpSend {
		each = 2 // the receive completes too
	}
	for _, x := range l.qps {
		for range rounds {
			l.post(x, op, size)
		}
	}
	first := 0
	err := l.run(each*pairs*rounds, func() time.Duration {
		if first == 0 && l.done[l.qps[0].num] == rounds {
			for _, x := range l.qps {
				first += l.done[x.num]
			}
		}
		if l.iterations%1000 == 500 {
			return max(stall, 10*time.Microsecond)
		}
		return 10 * time.Microsecond
	})
	c, n := &l.e.qpCount, pairs*rounds
	t.Logf("%d packets, %d sent again, %d probes, %d timeouts, %d found no frame", c.SentPackets, c.SentAgain, c.TailProbes, c.Timeouts, l.link.dropped)
	if err != nil {
		t.Fatal(err)
	}
	if c.SentAgain > c.SentPackets/200 || l.link.dropped > 0 {
		t.Errorf("%d of %d packets were sent again, %d found no frame", c.SentAgain, c.SentPackets, l.link.dropped)
	}
	if pairs > 1 && 2*first < n {
		t.Errorf("when the first queue pair had done its %d messages, the others had done %d of %d", rounds, first, n)
	}
}
