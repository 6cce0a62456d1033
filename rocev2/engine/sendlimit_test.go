// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Each limit of the engine is named when it is the one that keeps a queue pair from sending.
func TestSendLimit(t *testing.T) {
	for _, c := range []struct {
		want  qp.SendLimit
		limit func(e *Core, d *dest, x *QP) // function that sets the limit, before anything is sent
	}{
		{qp.LimitLossWindow, func(*Core, *dest, *QP) {}},
		{qp.LimitCongestionWindow, func(_ *Core, d *dest, _ *QP) { d.flight.SetWindow(5000) }},
		{qp.LimitPacer, func(e *Core, d *dest, _ *QP) { d.setRate(e, 1e6) }},
		{qp.LimitSocket, func(e *Core, _ *dest, _ *QP) { e.rx.loopback.count = loopbackLimit }},
		{qp.LimitFirstFlight, func(e *Core, _ *dest, x *QP) { e.hooks, x.hooked = blockingHooks{}, true }},
	} {
		t.Run(c.want.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoopback(t, 1)
				x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
				e := l.e
				e.now = 1
				if got := e.tx.sendLimit(&x.egress); got != qp.LimitNoWork {
					t.Errorf("before anything is posted: %v, want no work", got)
				}
				for range 8 {
					l.post(x, verbs.OpWrite, 100_000)
				}
				if got := e.tx.sendLimit(&x.egress); c.want == qp.LimitLossWindow && got != qp.NotLimited {
					t.Errorf("before it was served: %v, want not limited", got)
				}
				e.tx.flushDirty()
				c.limit(e, x.dest, x)
				for range 10 {
					e.tx.transmit()
				}
				if got := e.tx.sendLimit(&x.egress); got != c.want {
					t.Errorf("got %v", got)
				}
				if got := e.tx.destLimit(x.dest); got != c.want {
					t.Errorf("the destination: got %v", got)
				}
				if c.want == qp.LimitCongestionWindow {
					if x.dest.flight.SetWindow(0); e.tx.sendLimit(&x.egress) != qp.NotLimited {
						t.Errorf("with room for the head of the queue: got %v", e.tx.sendLimit(&x.egress))
					}
				}
			})
		})
	}
}

// blockingHooks lets no queue pair start.
type blockingHooks struct{ noHooks }

func (blockingHooks) mayStart(*QP) bool { return false }

// A queue pair that was posted to in this iteration is not in service yet, but nothing blocks
// it: SendLimit runs between the two.
func TestSendLimitBeforeService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(t, 1)
		l.e.hooks = &recorder{calls: map[string]int{}}
		x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
		if err := l.iterate(0); err != nil {
			t.Fatal(err)
		}
		l.post(x, verbs.OpWrite, 1000)
		if got := l.e.tx.sendLimit(&x.egress); got != qp.NotLimited {
			t.Errorf("got %v, want not limited", got)
		}
	})
}
