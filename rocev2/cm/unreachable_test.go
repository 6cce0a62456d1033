// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"net/netip"
	"testing"
)

// An attempt ends when its peer cannot be reached, and those to other peers and from other addresses go on.
func TestUnreachable(t *testing.T) {
	m := New(Config{})
	connect := func(local, peer string) ID {
		t.Helper()
		p := params()
		p.Local, p.Peer, p.QPN = netip.MustParseAddr(local), netip.MustParseAddr(peer), uint32(0x100+m.Len())
		id, err := m.Connect(0, p)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	ended := connect("10.0.0.1", "10.0.0.2")
	others := []ID{connect("10.0.0.1", "10.0.0.3"), connect("10.0.0.9", "10.0.0.2"), connect("10.0.0.1", "10.0.0.2")}
	m.conns[others[2]].remote = 7 // the peer has asked for time, so it was reached
	m.Take()
	why := errors.New("no neighbour")
	m.Unreachable(netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("10.0.0.2"), why)
	got := m.Take()
	if len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	failed, _ := got[0].(Event)
	gone, _ := got[1].(Event)
	if failed.ID != ended || failed.Kind != Failed || !errors.Is(failed.Err, ErrUnreachable) || !errors.Is(failed.Err, why) ||
		gone.ID != ended || gone.Kind != Gone {
		t.Errorf("%+v", got)
	}
	for _, id := range others {
		if s, ok := m.State(id); !ok || s != StateREQSent {
			t.Errorf("another attempt is in %s, %v", s, ok)
		}
	}
}
