// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// notified is a queue pair whose completion queue is watched.
type notified struct {
	w      *liveWorld
	a, b   *node // b is watched
	a2, b2 *node // second pair of nodes on the same devices
	fd     int   // eventfd of b
}

// send has a completion at b.
func (x *notified) send(f verbs.Flags) {
	x.w.t.Helper()
	x.w.must(x.b.qp.PostRecv(&verbs.RecvWR{}))
	x.w.must(x.a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: f | verbs.Signaled}))
	x.a.ends(0, verbs.StatusSuccess)
}

// signals is how often the eventfd was signalled since the last call.
func (x *notified) signals() uint64 {
	var n [8]byte
	if _, err := unix.Read(x.fd, n[:]); err != nil {
		return 0
	}
	return binary.NativeEndian.Uint64(n[:])
}

// take wants a signal.
func (x *notified) take() {
	x.w.t.Helper()
	testkit.Receive(x.w.t, "a signal", x.b.cq.Notify())
	testkit.Eventually(x.w.t, "the eventfd is signalled", func() bool { return x.signals() == 1 }) // written behind Notify
}

// none wants no signal. One for another queue of the device comes behind one for this queue.
func (x *notified) none(what string) {
	x.w.t.Helper()
	x.b2.cq.RequestNotify(false)
	x.w.must(x.b2.qp.PostRecv(&verbs.RecvWR{}))
	x.w.must(x.a2.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}))
	<-x.b2.cq.Notify()
	x.b2.ends(0, verbs.StatusSuccess)
	select {
	case <-x.b.cq.Notify():
		x.w.t.Errorf("%s is signalled", what)
	default:
	}
}

// Notify and the eventfd are signalled once for a queue that is armed, for completions of the kind
// that was asked for, whether the backend has an interrupt line or is polled.
func TestNotify(t *testing.T) {
	for _, polled := range []bool{false, true} {
		w := newLiveWorld(t, card.Faults{}, polled)
		x := notified{w: w}
		x.a, x.b = w.pair(rc)
		w.connect(x.a, x.b)
		x.a2, x.b2 = w.pair(rc)
		w.connect(x.a2, x.b2)
		var err error
		x.fd, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
		w.must(err)
		defer unix.Close(x.fd)
		x.b.cq.SetEventFD(x.fd)
		x.send(0)
		x.none("a queue that is not armed")
		x.b.cq.RequestNotify(false)
		x.none("a completion that was there")
		x.send(0)
		x.take()
		x.send(0)
		x.none("a second completion")
		x.b.cq.RequestNotify(true)
		x.send(0)
		x.none("a completion that is not solicited")
		x.b.cq.RequestNotify(false) // any, from here on
		x.b.cq.RequestNotify(true)
		x.send(0)
		x.take()
		x.b.cq.RequestNotify(true)
		x.send(verbs.Solicited)
		x.take()
	}
}
