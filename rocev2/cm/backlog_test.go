// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// flooded gives a manager that listens n requests of a network, and returns the addresses whose requests were
// reported. gone has those that have given way.
func flooded(t *testing.T, m *Manager, net, n int, p Proof) (reported map[ID]netip.Addr, gone map[ID]bool) {
	t.Helper()
	reported, gone = map[ID]netip.Addr{}, map[ID]bool{}
	for i := range n {
		src := netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", net, 1+i%250))
		r := request(t)
		r.SetQPN(uint32(0x100 + i))
		r.SetPath(src, addrB)
		d, err := mad.IPData{Src: src, Dst: addrB}.Append(nil)
		if err == nil {
			err = r.SetPrivateData(d)
		}
		if err != nil {
			t.Fatal(err)
		}
		m.Receive(second, src, addrB, r.Header, p)
		for _, a := range m.Take() {
			if e, ok := a.(Event); ok && e.Kind == Request {
				reported[e.ID] = src
			} else if ok && e.Kind == Failed && errors.Is(e.Err, ErrDisplaced) {
				gone[e.ID] = true
			}
		}
	}
	return reported, gone
}

func listening(t *testing.T, backlog int, c Config) *Manager {
	t.Helper()
	m := New(c)
	if err := m.Listen(service, backlog); err != nil {
		t.Fatal(err)
	}
	return m
}

// One network has the whole backlog of a listener. Another one gets half of it, and never more.
func TestBacklogShares(t *testing.T) {
	m := listening(t, 20, Config{})
	first, _ := flooded(t, m, 1, 30, Plain)
	if n := m.Counters(); len(first) != 20 || n.Overflow != 10 || n.Displaced != 0 {
		t.Errorf("%d requests, %+v", len(first), n)
	}
	second, gone := flooded(t, m, 2, 30, Plain)
	if n := m.Counters(); len(second) != 10 || len(gone) != 10 || n.Overflow != 30 || n.Displaced != 10 {
		t.Errorf("%d requests, %d gone, %+v", len(second), len(gone), n)
	}
	for id := range gone {
		if _, ok := first[id]; !ok {
			t.Errorf("%d has given way", id)
		}
	}
}

// Requests that are proven displace others, and are displaced by none. Those in the name of a host that stamps have
// few places.
func TestBacklogProofs(t *testing.T) {
	m := listening(t, 32, Config{})
	if got, _ := flooded(t, m, 1, 10, Doubtful); len(got) != 2 {
		t.Errorf("%d doubtful requests of a backlog of 32", len(got))
	}
	flooded(t, m, 2, 100, Plain)
	proven, gone := flooded(t, m, 3, 32, Proven)
	if len(proven) != 32 || len(gone) != 32 {
		t.Errorf("%d proven requests, %d others gone", len(proven), len(gone))
	}
	for net := range 10 {
		for _, p := range []Proof{Doubtful, Plain} {
			if got, gone := flooded(t, m, 10+net, 50, p); len(got) != 0 || len(gone) != 0 {
				t.Errorf("%s: %d requests, %d gone", p, len(got), len(gone))
			}
		}
	}
}

// Requests that were accepted and whose peers have proved nothing have half of the connections. This end still
// connects, and new requests displace the oldest.
func TestHalfOpen(t *testing.T) {
	m := listening(t, 1000, Config{MaxConns: 64})
	flooded(t, m, 1, 100, Plain)
	if m.half.Len() != 32 || m.Counters().Displaced != 68 {
		t.Errorf("%d half open, %+v", m.half.Len(), m.Counters())
	}
	for i := range 32 {
		p := params()
		p.Local, p.Peer, p.QPN = addrB, addrA, uint32(0x1000+i)
		if _, err := m.Connect(second, p); err != nil {
			t.Fatalf("connection %d of this end: %v", i, err)
		}
	}
}
