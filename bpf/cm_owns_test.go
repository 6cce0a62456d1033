// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// cmHosts are two managers whose messages go through the data plane of the first.
type cmHosts struct {
	l    *cmLab
	rng  *rand.Rand
	now  int64
	us   *cm.Manager
	them *cm.Manager
	seen []mad.Header // messages in both directions
	ids  [2][]cm.ID
}

// act lets a manager do something, and carries out what it wants done.
func (h *cmHosts) act() {
	h.now += h.rng.Int64N(3e9)
	for i, m := range []*cm.Manager{h.us, h.them} {
		m.Expire(h.now)
		local, peer := us4, peer4
		if i == 1 {
			local, peer = peer4, us4
		}
		switch h.rng.IntN(8) {
		case 0:
			_ = m.Listen(cmService+mad.ServiceID(h.rng.IntN(3)), 0)
		case 1:
			m.Unlisten(cmService + mad.ServiceID(h.rng.IntN(3)))
		case 2:
			_, _ = m.Connect(h.now, cm.ConnectParams{Local: local, Peer: peer, Service: cmService + mad.ServiceID(h.rng.IntN(3)),
				QPN: 2 + h.rng.Uint32N(1000), Attr: verbs.DefaultAttr()})
		case 3:
			_, _ = m.Resolve(h.now, cm.ResolveParams{Local: local, Peer: peer, Service: cmService + mad.ServiceID(h.rng.IntN(3))})
		case 4:
			if len(h.ids[i]) > 0 {
				_ = m.Disconnect(h.now, h.ids[i][h.rng.IntN(len(h.ids[i]))], nil)
			}
		}
	}
	for range 20 {
		h.carry(h.us, h.them, 0)
		h.carry(h.them, h.us, 1)
	}
}

func (h *cmHosts) carry(m, other *cm.Manager, i int) {
	for _, a := range m.Take() {
		switch a := a.(type) {
		case cm.Steer:
			h.l.steer(a)
		case cm.Send:
			h.seen = append(h.seen, a.MAD)
			if h.rng.IntN(4) > 0 {
				other.Receive(h.now, a.Local, a.Peer, a.MAD, cm.Plain)
			}
		case cm.Event:
			h.ids[i] = append(h.ids[i], a.ID)
			switch p := a.Path; a.Kind {
			case cm.Request:
				p.Local.QPN = 2 + h.rng.Uint32N(1000)
				if h.rng.IntN(3) > 0 {
					_ = m.Accept(h.now, a.ID, p, nil)
				} else {
					_ = m.Reject(h.now, a.ID, nil)
				}
			case cm.Reply:
				_ = m.Ready(h.now, a.ID, nil)
			case cm.ResolveRequest:
				_ = m.Answer(h.now, a.ID, 5, 5, nil)
			}
		}
	}
}

// message is one that was seen, of either side, mostly changed: other IDs, kinds, bytes.
func (h *cmHosts) message() mad.Header {
	m := slices.Clone(h.seen[h.rng.IntN(len(h.seen))])
	field := func(at int) { // of another message, 4 bytes
		copy(m[at:at+4], h.seen[h.rng.IntN(len(h.seen))][[]int{24, 28}[h.rng.IntN(2)]:])
	}
	switch h.rng.IntN(8) {
	case 0:
		field(24)
	case 1:
		field(28)
	case 2:
		clear(m[24+4*h.rng.IntN(2):][:4])
	case 3:
		binary.BigEndian.PutUint16(m[16:], uint16(0x0F+h.rng.IntN(12)))
	case 4:
		m[h.rng.IntN(48)] ^= 1 << h.rng.IntN(8)
	case 5: // a REJ (timeout) with the GUID of a REQ
		rej := mad.NewREJ(1, 0, 0, mad.KindOther, mad.ReasonTimeout)
		_ = rej.SetInfo(h.seen[h.rng.IntN(len(h.seen))][40:48])
		m = rej.Header
		field(24)
	}
	return m
}

// Ingress decides as cm.Manager.Owns does, on messages as they are and changed at random, while
// connections come and go.
func TestSteerCMAgreesWithOwns(t *testing.T) {
	l := newCMLab(t)
	ours, all := map[mad.Attr]int{}, map[mad.Attr]int{}
	for seed := range uint64(60) {
		h := &cmHosts{l: l, rng: rand.New(rand.NewPCG(seed, 7)), now: 1e9}
		h.us = cm.New(cm.Config{Steer: true, Rand: h.rng.Uint32, MaxAnswered: 8})
		h.them = cm.New(cm.Config{Rand: h.rng.Uint32, MaxAnswered: 8})
		for range 60 {
			h.act()
			for range 20 * number(len(h.seen) > 0) {
				m, d := h.message(), gsi(nil)
				if d.Payload = m; h.rng.IntN(10) == 0 {
					d.Src = netip.MustParseAddr("10.0.0.5")
				}
				verdict, _ := l.in(fromPeer(t, d))
				own := h.us.Owns(d.Src, m)
				if own != (verdict == xdpRedirect) {
					t.Fatalf("seed %d: %s from %s: verdict %d, Owns says %v\n% x", seed, m.Attr(), d.Src, verdict, own, m[:48])
				}
				if all[m.Attr()]++; own {
					ours[m.Attr()]++
				}
			}
		}
		l.clear()
	}
	t.Logf("of %v ours were %v", all, ours)
	for a := mad.AttrREQ; a <= mad.AttrSIDRREP; a++ {
		if ours[a] < 5 || all[a]-ours[a] < 5 {
			t.Errorf("%s: of %d messages %d were ours: too few of either", a, all[a], ours[a])
		}
	}
}
