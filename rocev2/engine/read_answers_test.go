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

// The ACK or the result of a message behind a READ waits for the READ's responses, which the
// destination's queue sends. It leaves right after them: no packet is lost here, so the
// requester has no reason to send a probe or anything again.
func TestAnswersBehindReads(t *testing.T) {
	for name, op := range map[string]verbs.Op{"FETCH_ADD": verbs.OpFetchAdd, "SEND": verbs.OpSend, "WRITE": verbs.OpWrite} {
		for _, size := range []int{8, 9000} {
			for _, pairs := range []int{1, 30} {
				t.Run(fmt.Sprintf("%s/%d/%d", name, size, pairs), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { behindReads(t, op, size, pairs) })
				})
			}
		}
	}
}

func behindReads(t *testing.T, op verbs.Op, size, pairs int) {
	l := newLoopback(t, 1)
	n := 0
	for range pairs {
		x := l.connect(verbs.RC, rocev2.PMTU1024, 4)
		for range 2 {
			l.post(x, verbs.OpRead, size)
			l.post(x, op, 8)
			if n += 2; op == verbs.OpSend {
				n++ // the receive completes too
			}
		}
	}
	if err := l.run(n, func() time.Duration { return 10 * time.Microsecond }); err != nil {
		t.Fatal(err)
	}
	if c := &l.e.qpCount; c.SentAgain+c.TailProbes+c.Timeouts != 0 {
		t.Errorf("%d sent again, %d probes, %d timeouts without loss", c.SentAgain, c.TailProbes, c.Timeouts)
	}
}
