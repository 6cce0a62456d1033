// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/cmservice"
)

// counting is a transport that counts what it is given.
type counting struct{ sent chan mad.Header }

func (c counting) Send(_, _ netip.Addr, m mad.Header) { c.sent <- m }
func (counting) Steer(cm.Steer) error                 { return nil }

func (counting) Reach(_, _ netip.Addr, _ cm.Proof, _ func()) bool { return true }

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
	l.e.frame(packet(nil), rxMeta{}, false)
	if c := l.e.count; c.rxUnknownQPN != 1 || c.rxMADs != 0 {
		t.Errorf("no manager: %+v", c)
	}

	out := counting{make(chan mad.Header, 10)}
	svc := cmservice.New(out, cm.Config{Alone: true})
	defer svc.Close()
	l.e.startMADs(svc)
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
		l.e.frame(packet(change), rxMeta{}, false)
		if c := l.e.count; c.rxBadMAD != bad || c.rxMADs != 0 {
			t.Errorf("%s: %d bad, %d good", name, c.rxBadMAD, c.rxMADs)
			bad = c.rxBadMAD
		}
	}
	l.e.frame(packet(nil), rxMeta{}, false)
	if l.e.count.rxMADs != 1 || l.e.count.rxUnknownQPN != 1 {
		t.Errorf("%+v", l.e.count)
	}
	select {
	case m := <-out.sent:
		if m.Attr() != mad.AttrREJ {
			t.Errorf("the answer is %s", m.Attr())
		}
	case <-time.After(5 * time.Minute):
		t.Error("no answer")
	}
}

// Messages that find no frame wait in order; beyond the limit they are dropped.
func TestMADsWait(t *testing.T) {
	l := newLoopback(t, 1)
	l.e.startMADs(nil)
	path, err := loopbackPath(netip.Addr{}, netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	to := &AH{address: address{path: path, dest: l.e.destination(path)}}
	const extra = 10
	for i := range madsWaiting + extra {
		m := mad.NewREQ(uint64(i))
		l.e.queueMAD(to, m.Header)
	}
	if l.e.count.madsDropped != extra {
		t.Errorf("%d dropped", l.e.count.madsDropped)
	}
	next := uint64(0)
	for next < madsWaiting {
		if n := l.e.sendMADs(); n != loopbackLimit {
			t.Fatalf("%d sent at once", n)
		}
		q := &l.e.loopback
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
