// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A queue pair of UD sends to the address of its first work request. Without one, or when the handle was destroyed, it
// has no address: it stays where it is queued, needs no frame, and what was posted is lost.
func TestAddressOfNextDatagram(t *testing.T) {
	l := newLoopback(t, 1)
	e, a := l.e, openAH(l.e, own(us))
	x := datagrams(t, e)
	e.rx.loopback.count = loopbackLimit // there is no frame for anything
	check := func(when string, to *Address, at *dest, frame bool) {
		t.Helper()
		next := x.next()
		if next != to || x.destOf(next) != at || e.tx.hasFrame(next) != frame || (next.current().Err != nil) != frame {
			t.Errorf("%s: to %+v, queued at %p, frame %v", when, next, x.destOf(next), e.tx.hasFrame(next))
		}
	}
	check("nothing is posted", &x.Address, &e.datagrams, true)
	wr := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Inline, Data: []byte{1}, AH: a, RemoteQPN: 5, RemoteQKey: 6}
	if err := x.q.PostSend(&wr); err != nil {
		t.Fatal(err)
	}
	check("a work request is posted", &a.address, a.address.dest, false)
	a.address.dest = nil
	check("its handle is destroyed", &a.address, &e.datagrams, true)
	e.rx.loopback.count = 0
	if o := x.nextData(e, &x.egress); o == nil || x.addressOf(o) != &a.address {
		t.Fatalf("the packet is %+v", o)
	} else if size, d := e.tx.send(&x.egress, o, false); size != 0 || d != &e.datagrams || e.count.txNoPath != 1 {
		t.Errorf("%d bytes were sent to %p, %d without a path", size, d, e.count.txNoPath)
	}
}
