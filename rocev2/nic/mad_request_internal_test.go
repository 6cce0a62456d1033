// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// Unknown neighbours are looked for at a rate, after a burst.
func TestAskLimit(t *testing.T) {
	var l askLimit
	now := time.Unix(1000, 0)
	take := func() (n int) {
		for l.take(now) {
			n++
		}
		return n
	}
	if n := take(); n != askBurst {
		t.Errorf("%d at once, want %d", n, askBurst)
	}
	now = now.Add(time.Second / 2)
	if n := take(); n != askRate/2 {
		t.Errorf("%d in half a second, want %d", n, askRate/2)
	}
	now = now.Add(time.Hour)
	if n := take(); n != askBurst {
		t.Errorf("%d after an hour, want %d", n, askBurst)
	}
}

// A message is proven by the token of its stamp. Without it, a message is doubtful in the name of a host that stamps, and
// plain otherwise.
func TestProofOfMAD(t *testing.T) {
	l := newLoopback(t, 1)
	b, err := (&rocev2.Datagram{
		Src: netip.MustParseAddr("10.0.0.2"), Dst: netip.MustParseAddr("10.0.0.1"), Opcode: rocev2.UDSendOnly,
		DestQP: mad.QPN, SrcQP: mad.QPN, QKey: mad.QKey, Payload: make([]byte, mad.Len),
	}).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rocev2.ParseIP(b)
	if err != nil {
		t.Fatal(err)
	}
	d := &dest{addr: p.Src()}
	for _, c := range []struct {
		known, stamps, token bool
		want                 cm.Proof
	}{
		{false, false, false, cm.Plain}, {false, false, true, cm.Proven}, {true, false, false, cm.Plain},
		{true, true, false, cm.Doubtful}, {true, true, true, cm.Proven},
	} {
		delete(l.e.dests, p.Src())
		if c.known {
			l.e.dests[p.Src()] = d
		}
		d.stamps = c.stamps
		if got := l.e.proofOf(&p, c.token); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
