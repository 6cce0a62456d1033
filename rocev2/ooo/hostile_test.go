// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// newSource returns a queue pair whose peer is the test, with two messages of one packet posted.
func newSource(t *testing.T, completed func(verbs.Completion)) *ooo.QP {
	t.Helper()
	memory := &wiretest.Memory{}
	region := memory.Register(0, 100, 0)
	q, err := ooo.New(ooo.Config{QPN: 1, PeerQPN: 2, PMTU: rocev2.PMTU1024, PeerWindow: 1, Memory: memory, Complete: completed})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := q.Post(&ooo.Request{Op: verbs.OpWrite, Local: verbs.SGE{Addr: region.Addr, Len: 100, LKey: region.Key}}); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

// answer has the queue pair receive a response.
func answer(t *testing.T, q *ooo.QP, now ooo.Time, op rocev2.Opcode, psn rocev2.PSN, fields *rocev2.OOOFields) {
	t.Helper()
	addr := netip.AddrFrom4([4]byte{10, 0, 0, 1})
	d := rocev2.Datagram{Src: addr, Dst: addr, Opcode: op, DestQP: 1, PSN: psn, OOO: fields}
	b, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rocev2.ParseIP(b)
	if err != nil {
		t.Fatal(err)
	}
	q.Receive(now, &p, 0)
}

// A peer that refuses all packets, empty ones too, ends the queue pair: nothing is sent for ever.
func TestAllRefused(t *testing.T) {
	var got []verbs.Completion
	q := newSource(t, func(c verbs.Completion) { got = append(got, c) })
	sent := 0
	for now := ooo.Millisecond; !q.Ended(); now += ooo.Millisecond {
		for _, p := range send(q, now) {
			if sent++; sent > 100 {
				t.Fatal("the queue pair does not end")
			}
			answer(t, q, now, rocev2.OpONak, p.BTH().PSN(), &rocev2.OOOFields{Nak: rocev2.ONakFields{Code: rocev2.ONakRemoteAccess}})
		}
		q.Expire(now)
	}
	if len(got) != 2 || got[0].Status != verbs.StatusRetryExceeded || got[1].Status != verbs.StatusWRFlushed {
		t.Errorf("%+v", got)
	}
}

// A peer that advertises a window of nothing does not keep messages waiting for ever.
func TestWindowOfNothing(t *testing.T) {
	var got []verbs.Completion
	q := newSource(t, func(c verbs.Completion) { got = append(got, c) })
	for now := ooo.Millisecond; !q.Ended() && len(got) < 2; now += ooo.Millisecond {
		for _, p := range send(q, now) {
			psn := p.BTH().PSN()
			answer(t, q, now, rocev2.OpOAck, psn, &rocev2.OOOFields{OACK: rocev2.OACKFields{Message: uint32(psn), Cumulative: psn, Base: psn &^ 63}})
		}
		q.Expire(now)
		if now > 100*ooo.Second {
			t.Fatalf("the queue pair does not end, and has completed %d messages", len(got))
		}
	}
	if len(got) != 2 || got[0].Status != verbs.StatusRetryExceeded {
		t.Errorf("%+v", got)
	}
}
