// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// shown is a view that keeps what was shown last.
type shown struct {
	state    verbs.State
	sendDone uint32
}

func (v *shown) Show(s verbs.State, sendDone, _ uint32) { v.state, v.sendDone = s, sendDone }
func (*shown) FindReceives()                            {}

// A local operation completes when the packet of the next work request leaves, and the pacer then stops the queue pair: the
// application finds room when it polls the completion.
func TestRoomOfLocalOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(t, 1)
		x, v := l.connect(verbs.RC, rocev2.PMTU1024, 2), &shown{}
		x.SetView(v)
		region := testkit.Must1(l.pd.RegMR(l.memory[:64], verbs.AccessLocalWrite|verbs.AccessBindWindows))(t)
		window := testkit.Must1(l.table.AllocWindow(l.pd.num))(t)
		time.Sleep(time.Second)
		l.e.Begin(testNow())
		x.dest.pacer = newBucket(1e3)
		x.dest.pacer.Consume(int64(l.e.now), 0, 0) // empty now: a packet is followed by a pause
		testkit.Must(t, x.PostSend(&verbs.SendWR{Op: verbs.OpBindWindow, Flags: verbs.Signaled, Bind: verbs.Bind{
			Window: window.RKey(), Region: region.LKey(), Addr: region.VA(), Length: 8, Access: verbs.AccessRemoteRead,
		}}))
		l.post(x, verbs.OpWrite, 8)
		l.e.tx.flushDirty()
		l.e.tx.transmit()
		l.e.tx.flushDirty()
		if len(l.cq.list) != 1 || x.SendQueued() != 1 {
			t.Fatalf("%+v, %d work requests are queued: this shows nothing", l.cq.list, x.SendQueued())
		}
		if v.sendDone != 1 {
			t.Errorf("%d work requests are off the queue, want 1", v.sendDone)
		}
	})
}

// A queue pair that is removed in the iteration in which a message has completed: the application finds room for another
// one when it polls the completion.
func TestRoomOfRemovedQueuePair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(t, 1)
		x, v := l.connect(verbs.RC, rocev2.PMTU1024, 1), &shown{}
		x.SetView(v)
		l.post(x, verbs.OpWrite, 8)
		for range 10 {
			l.e.Begin(testNow())
			l.transfer()
			l.receive()
			if len(l.cq.list) > 0 {
				break
			}
			l.e.Run(false)
		}
		if len(l.cq.list) != 1 || v.sendDone != 0 {
			t.Fatalf("%d completions, %d places shown: this shows nothing", len(l.cq.list), v.sendDone)
		}
		l.e.RemoveQP(x)
		if v.sendDone != 1 || v.state != verbs.StateRTS {
			t.Errorf("%d work requests are off the queue in %s, want 1 in RTS", v.sendDone, v.state)
		}
	})
}
