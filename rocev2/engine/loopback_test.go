// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A small message to the engine itself takes one iteration: request, answer and completion. A large one does
// not keep the loop, which has other sockets.
func TestShortLoopback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(t, 1)
		l.e.rx.loopback.rounds = LoopbackRounds
		x := l.connect(verbs.RC, rocev2.PMTU1024, 2)
		for l.e.iterate() != 0 { // what connecting has left
		}
		l.post(x, verbs.OpWrite, 8)
		l.e.iterate()
		if n := l.cq.take(l.batch[:]); n != 1 || l.e.rx.loopback.count != 0 {
			t.Errorf("%d of 1 messages have completed after one iteration, %d packets wait", n, l.e.rx.loopback.count)
		}
		const packets = loopbackFew + 1
		l.post(x, verbs.OpWrite, packets*1024)
		l.e.iterate()
		if n := l.cq.take(l.batch[:]); n != 0 || l.e.rx.loopback.count != packets {
			t.Errorf("%d messages have completed, %d of %d packets wait", n, l.e.rx.loopback.count, packets)
		}
		l.e.iterate()
		l.e.iterate()
		if n := l.cq.take(l.batch[:]); n != 1 {
			t.Errorf("%d of 1 messages have completed", n)
		}
	})
}
