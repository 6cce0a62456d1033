// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// A source is asked at once, then after growing delays until a HELLO_ACK comes to it.
func TestSourcesAreAsked(t *testing.T) {
	var s sources
	peer, own, other := keyN(2), peerN(11), peerN(12)
	now := 1000 * second
	if !s.add(peer, own, now) || s.add(peer, own, now) || !s.add(peer, other, now) {
		t.Error("an address is new once")
	}
	asked := func(at uint64) (own []netip.Addr) {
		for _, x := range s.due(at) {
			own = append(own, x.own)
		}
		return own
	}
	if got := asked(now); !slices.Equal(got, []netip.Addr{own, other}) {
		t.Errorf("asked from %v", got)
	}
	s.answered(peer, bpf.OwnWord(other))
	at := now
	for _, d := range sourceDelays {
		if got := asked(at + uint64(d) - 1); len(got) != 0 {
			t.Errorf("asked before %v: %v", d, got)
		}
		at += uint64(d)
		if got := asked(at); !slices.Equal(got, []netip.Addr{own}) {
			t.Errorf("after %v asked from %v", d, got)
		}
	}
	if got := asked(at + uint64(time.Hour)); len(got) != 0 || !slices.Equal(s.of[peer], []netip.Addr{own, other}) {
		t.Errorf("asked from %v, sources %v", got, s.of[peer])
	}
	for i := range byte(100) {
		s.add(peer, peerN(100+i), now)
	}
	if n := len(s.of[peer]); n != maxSources {
		t.Errorf("%d sources", n)
	}
	removed := s.remove(func(_ bpf.DestKey, x netip.Addr) bool { return x == own })
	if len(removed) != 1 || removed[0].own != own || slices.Contains(s.of[peer], own) {
		t.Errorf("removed %+v, left %v", removed, s.of[peer])
	}
	if s.remove(func(bpf.DestKey, netip.Addr) bool { return true }); len(s.of) != 0 || len(s.asked) != 0 {
		t.Errorf("%+v", s)
	}
}

// The agent lists the addresses of its network namespace, and takes over the tokens of an earlier
// one. A token whose address is gone is removed.
func TestAgentAdoptsSources(t *testing.T) {
	onAttached(t, loader.Options{}, func(t *testing.T, l netlink.Link, o loader.Options) {
		for _, a := range []string{"10.9.0.1/24", "10.9.0.11/24"} {
			addr, err := netlink.ParseAddr(a)
			if err != nil {
				t.Fatal(err)
			}
			if err := netlink.AddrAdd(l, addr); err != nil {
				t.Fatal(err)
			}
		}
		att, err := loader.Open(topo.IfName, o)
		if err != nil {
			t.Fatal(err)
		}
		defer att.Close()
		own := netip.MustParseAddr("10.9.0.11")
		pair := func(a netip.Addr) bpf.OwnPair { return bpf.OwnPair{Peer: keyN(2), Own: bpf.OwnWord(a)} }
		for _, a := range []netip.Addr{own, peerN(77)} {
			if err := att.Maps.TxTokens.Put(pair(a), uint64(5)); err != nil {
				t.Fatal(err)
			}
		}
		a := mustOpen(t, o)
		if !a.own.Has(own) || !slices.Equal(a.sources.of[keyN(2)], []netip.Addr{own}) || len(a.sources.asked) != 0 {
			t.Errorf("own %v, sources %+v", a.own.Has(own), a.sources)
		}
		var token uint64
		if err := att.Maps.TxTokens.Lookup(pair(peerN(77)), &token); !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Errorf("the token of an address that is gone: %v", err)
		}
		addr, _ := netlink.ParseAddr("10.9.0.11/24")
		if err := netlink.AddrDel(l, addr); err != nil {
			t.Fatal(err)
		}
		a.readOwn()
		var number uint32
		if err := att.Maps.OwnAddresses.Lookup(bpf.KeyOf(own), &number); a.own.Has(own) || len(a.sources.of) != 0 || !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Errorf("after it was removed: own %v, sources %+v, %v", a.own.Has(own), a.sources, err)
		}
	})
}
