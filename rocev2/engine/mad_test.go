// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// manager is a communication manager that keeps what it is given.
type manager struct{ got []mad.Header }

// Receive implements MADReceiver.
func (m *manager) Receive(_, _ netip.Addr, b []byte, _ cm.Proof) {
	m.got = append(m.got, slices.Clone(mad.Header(b)))
}

// Only a UD SEND Only with the Q_Key and the size of a MAD gets to the communication manager; the rest
// is counted. Without a manager the number belongs to nobody.
func TestReceiveMAD(t *testing.T) {
	l := newLoopback(t, 1)
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	req := mad.NewREQ(1)
	req.SetLocalCommID(7)
	req.SetServiceID(0x01060000)
	packet := func(change func(*rocev2.Datagram)) []byte {
		t.Helper()
		d := rocev2.Datagram{Src: b, Dst: a, Opcode: rocev2.UDSendOnly, DestQP: mad.QPN, SrcQP: mad.QPN, QKey: mad.QKey, Payload: req.Header}
		if change != nil {
			change(&d)
		}
		p, err := d.AppendTo(make([]byte, etherLen))
		if err != nil {
			t.Fatal(err)
		}
		p[12], p[13] = 8, 0
		return p
	}
	l.e.rx.frame(packet(nil), Meta{}, false)
	if c := l.e.count; c.rxUnknownQPN != 1 || c.rxMADs != 0 {
		t.Errorf("no manager: %+v", c)
	}

	out := new(manager)
	l.e.StartMADs(out)
	bad := uint64(0)
	for name, change := range map[string]func(*rocev2.Datagram){
		"Q_Key":      func(d *rocev2.Datagram) { d.QKey++ },
		"P_Key":      func(d *rocev2.Datagram) { d.PKey = 0x8001 },
		"immediate":  func(d *rocev2.Datagram) { d.Opcode = rocev2.UDSendOnlyImm },
		"RC":         func(d *rocev2.Datagram) { d.Opcode = rocev2.RCSendOnly },
		"too short":  func(d *rocev2.Datagram) { d.Payload = d.Payload[:252] },
		"with a pad": func(d *rocev2.Datagram) { d.Payload = d.Payload[:255] },
		"too long":   func(d *rocev2.Datagram) { d.Payload = append(d.Payload[:256:256], 0, 0, 0, 0) },
	} {
		bad++
		l.e.rx.frame(packet(change), Meta{}, false)
		if c := l.e.count; c.rxBadMAD != bad || c.rxMADs != 0 {
			t.Errorf("%s: %d bad, %d good", name, c.rxBadMAD, c.rxMADs)
			bad = c.rxBadMAD
		}
	}
	l.e.rx.frame(packet(nil), Meta{}, false)
	if l.e.count.rxMADs != 1 || l.e.count.rxUnknownQPN != 1 {
		t.Errorf("%+v", l.e.count)
	}
	if len(out.got) != 1 || out.got[0].Attr() != mad.AttrREQ {
		t.Errorf("the manager has got %v", out.got)
	}
}

// Messages that find no frame wait in order; beyond the limit they are dropped.
func TestMADsWait(t *testing.T) {
	l := newLoopback(t, 1)
	to := openAH(l.e, own(us))
	const extra = 10
	for i := range madsWaiting + extra {
		m := mad.NewREQ(uint64(i))
		l.e.SendMAD(to, m.Header)
	}
	if l.e.count.madsDropped != extra {
		t.Errorf("%d dropped", l.e.count.madsDropped)
	}
	next := uint64(0)
	for next < madsWaiting {
		if n := l.e.mads.sendAll(); n != loopbackLimit {
			t.Fatalf("%d sent at once", n)
		}
		q := &l.e.rx.loopback
		for ; q.count > 0; q.count-- {
			p, err := rocev2.ParseFrame(q.slots[q.head][:q.lens[q.head]])
			if err != nil || p.ICRC() != 0 { // it does not leave the memory
				t.Fatalf("%v", err)
			}
			h, err := mad.Parse(p.Payload())
			if err != nil || h.TID() != next || p.DETH().QKey() != mad.QKey || p.DETH().SrcQP() != mad.QPN || p.BTH().DestQP() != mad.QPN {
				t.Fatalf("message %d: %v, %v", next, err, h.TID())
			}
			next++
			q.head = (q.head + 1) % loopbackLimit
		}
	}
	if len(l.e.mads.queue) != 0 || l.e.count.txMADs != madsWaiting {
		t.Errorf("%d left, %d sent", len(l.e.mads.queue), l.e.count.txMADs)
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
		delete(l.e.dests.rails[0].dests, p.Src())
		if c.known {
			l.e.dests.rails[0].dests[p.Src()] = d
		}
		d.stamps = c.stamps
		if got := l.e.mads.proofOf(&p, c.token); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
