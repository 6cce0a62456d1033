// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// somePeer is a peer with one interface, or with two.
type somePeer struct {
	announced bool // on rail 0
	second    bool // there is a rail 1, where nothing is announced
	asked     []int
	refused   int
}

func (p *somePeer) Rails() int {
	if p.second {
		return 2
	}
	return 1
}
func (p *somePeer) Announced(rail int) bool  { return p.announced && rail == 0 }
func (p *somePeer) Ask(rail int)             { p.asked = append(p.asked, rail) }
func (p *somePeer) Refuse()                  { p.refused++ }
func (p *somePeer) StampOffset(int) ooo.Time { return 0 }

// transport is a queue pair in the mode, with its completions.
type transport struct {
	*ooo.Transport
	base *qp.QP
	done []verbs.Completion
	out  qp.Outbound
}

func (x *transport) Complete(c verbs.Completion) { x.done = append(x.done, c) }

// newTransport returns one in RTS, to a peer with the same attributes.
func newTransport(t *testing.T, peer *somePeer) *transport {
	t.Helper()
	x := &transport{}
	x.base = qp.New(qp.Config{
		QPN: 17, Type: verbs.RC, MaxSend: 4, MaxSendSGE: 1, MaxRecv: 4, SendCQ: x, RecvCQ: x, Count: new(qp.Counters), Memory: &wiretest.Memory{},
	})
	x.Transport = ooo.NewTransport(x.base, ooo.TransportConfig{Peer: peer, Count: new(ooo.Counters), Packet: new(ooo.Outbound)})
	x.connect(t)
	return x
}

// connect brings the queue pair from RESET to RTS.
func (x *transport) connect(t *testing.T) {
	t.Helper()
	a := verbs.DefaultAttr()
	a.PMTU, a.DestQPN = rocev2.PMTU1024, 17
	for _, s := range []verbs.State{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
		a.State = s
		if err := x.Modify(a, verbs.RequiredMask(verbs.RC, s)); err != nil {
			t.Fatal(err)
		}
	}
}

func (x *transport) post(t *testing.T, id uint64) {
	t.Helper()
	if err := x.PostSend(&verbs.SendWR{ID: id, Op: verbs.OpWrite, Flags: verbs.Signaled}); err != nil {
		t.Fatal(err)
	}
}

// Work waits until the peer has announced the mode, and ends with the queue pair if it does not. The engine is asked
// meanwhile.
func TestUnannounced(t *testing.T) {
	for _, announced := range []bool{false, true} {
		peer := &somePeer{}
		x := newTransport(t, peer)
		x.post(t, 1)
		x.post(t, 2)
		start := qp.Time(1e9)
		now := start
		for x.base.State() == verbs.StateRTS && now < start+2*ooo.AskTime {
			if x.NextOn(now, 0, &x.out) {
				break
			}
			if x.SendLimit(now) != qp.LimitHalted || x.Deadline() != now+ooo.AskPeriod {
				t.Fatalf("%s, deadline %d at %d", x.SendLimit(now), x.Deadline(), now)
			}
			now = x.Deadline()
			peer.announced = announced && now > start+1e9
			x.Expire(now)
			if x.Deadline() == 0 && x.base.State() == verbs.StateRTS && !announced {
				t.Fatal("nothing is asked any more")
			}
		}
		if announced {
			if x.out.Opcode != rocev2.OpOWrite || peer.refused != 0 || len(peer.asked) < 2 {
				t.Errorf("%s was sent, refused %d times, asked %d times", x.out.Opcode, peer.refused, len(peer.asked))
			}
			continue
		}
		if x.base.State() != verbs.StateErr || now < start+ooo.AskTime || peer.refused != 1 || x.SendQueued() != 0 {
			t.Fatalf("%s after %d ns, refused %d times", x.base.State(), now-start, peer.refused)
		}
		if len(x.done) != 2 || x.done[0].Status != verbs.StatusRemoteInvalidRequest || x.done[1].Status != verbs.StatusWRFlushed {
			t.Errorf("%+v", x.done)
		}
	}
}

// The wait for the announcement begins with the work request, also where no packet is asked for.
func TestUnannouncedUnserved(t *testing.T) {
	for _, announced := range []bool{false, true} {
		peer := &somePeer{announced: announced}
		x := newTransport(t, peer)
		if x.Deadline() != 0 {
			t.Fatalf("deadline %d without work", x.Deadline())
		}
		x.post(t, 1)
		start := qp.Time(1e9)
		now := start
		for x.base.State() == verbs.StateRTS && now < start+2*ooo.AskTime {
			at := x.Deadline()
			if at == 0 {
				break
			}
			now = max(now, at)
			x.Expire(now)
			if limit := x.SendLimit(now); !announced && x.base.State() == verbs.StateRTS && limit != qp.LimitHalted {
				t.Fatalf("%s while the work request waits", limit)
			}
		}
		if announced {
			if x.base.State() != verbs.StateRTS || now != start || len(peer.asked) != 0 || !x.NextOn(now, 0, &x.out) {
				t.Errorf("announced: %s after %d ns, %d times asked", x.base.State(), now-start, len(peer.asked))
			}
		} else if x.base.State() != verbs.StateErr || now != start+ooo.AskTime || peer.refused != 1 {
			t.Errorf("%s after %d ns, refused %d times", x.base.State(), now-start, peer.refused)
		}
	}
}

// A packet of the mode shows that the peer has it. One of RC is counted and shows nothing.
func TestArrivalAnnounces(t *testing.T) {
	for op, want := range map[rocev2.Opcode]bool{rocev2.RCSendOnly: false, rocev2.OpOWrite: true} {
		y := newTransport(t, &somePeer{})
		y.post(t, 1)
		y.Deliver(qp.Arrival{Now: 1}, packetOf(t, op))
		if got := y.NextOn(2, 0, &y.out); got != want || want != (y.base.Config().Count.Malformed == 0) {
			t.Errorf("%s: data leaves: %t, %+v", op, got, *y.base.Config().Count)
		}
	}
}

func packetOf(t *testing.T, op rocev2.Opcode) rocev2.Packet {
	t.Helper()
	host := netip.MustParseAddr("192.0.2.1")
	d := rocev2.Datagram{Src: host, Dst: host, SrcPort: 0xC000, Opcode: op, DestQP: 17, OOO: new(rocev2.OOOFields)}
	b, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rocev2.ParseIP(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Each rail needs the announcement for itself, and is asked about for itself. A packet of the mode shows that the peer
// has it on the rail of the packet and on the first one.
func TestAnnouncedRails(t *testing.T) {
	arrived := func(rail uint8) *transport {
		x := newTransport(t, &somePeer{second: true})
		for id := range uint64(4) {
			x.post(t, id)
		}
		x.Deliver(qp.Arrival{Now: 1, Rail: rail}, packetOf(t, rocev2.OpOWrite))
		return x
	}
	for rail := range uint8(2) {
		x := arrived(rail)
		if got := x.NextOn(2, 1, &x.out); got != (rail == 1) {
			t.Errorf("after a packet on rail %d: data leaves on rail 1: %t", rail, got)
		}
		if !x.NextOn(2, 0, &x.out) {
			t.Errorf("after a packet on rail %d: no data leaves on rail 0", rail)
		}
	}

	peer := &somePeer{announced: true, second: true}
	x := newTransport(t, peer)
	x.post(t, 1)
	if x.NextOn(1, 1, &x.out) || !slices.Equal(peer.asked, []int{1}) {
		t.Errorf("announced on rail 0: data leaves on rail 1, or the rails asked about are %d", peer.asked)
	}
}

// RESET drops work requests and the announcement. ERR completes them. There is no SQD.
func TestTransportStates(t *testing.T) {
	peer := &somePeer{announced: true}
	x := newTransport(t, peer)
	if err := x.Modify(verbs.Attr{State: verbs.StateSQD}, verbs.MaskState); err == nil || x.base.State() != verbs.StateRTS {
		t.Errorf("SQD: %v, %s", err, x.base.State())
	}
	x.post(t, 1)
	if !x.NextOn(1, 0, &x.out) || x.QP() == nil || x.Deadline() == 0 {
		t.Fatal("nothing is sent")
	}
	x.post(t, 2)
	if err := x.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState); err != nil || len(x.done) != 2 || x.Deadline() != 0 {
		t.Errorf("%v: %+v, deadline %d", err, x.done, x.Deadline())
	}
	x.post(t, 3)
	if len(x.done) != 3 || x.done[2].Status != verbs.StatusWRFlushed {
		t.Errorf("posted in ERR: %+v", x.done)
	}
	if err := x.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState); err != nil || x.QP() != nil {
		t.Errorf("RESET: %v", err)
	}
}

// RESET from RTS: the work requests are gone, and after the next connection the peer must announce the mode again.
func TestTransportReset(t *testing.T) {
	peer := &somePeer{announced: true}
	x := newTransport(t, peer)
	x.post(t, 1)
	if !x.NextOn(1, 0, &x.out) {
		t.Fatal("nothing is sent")
	}
	x.post(t, 2)
	if err := x.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState); err != nil || x.SendQueued() != 0 || len(x.done) != 0 {
		t.Errorf("RESET: %v: %d are queued, completions %+v", err, x.SendQueued(), x.done)
	}
	peer.announced = false
	x.connect(t)
	x.post(t, 3)
	if x.NextOn(2, 0, &x.out) {
		t.Errorf("%s is sent without an announcement", x.out.Opcode)
	}
}
