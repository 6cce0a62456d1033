// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"testing"
	"testing/synctest"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/samples"
)

// forgedPair is a connection of an engine with itself, of which a message of x is outstanding, and the peer of it.
type forgedPair struct {
	l      *loopback
	x, y   *QP // requester, responder
	s      *stampingPeer
	wrong  samples.Secret
	behind int // bytes behind the ICRC
}

func newForgedPair(t *testing.T, from samples.Peer, outOfOrder bool) *forgedPair {
	f := &forgedPair{}
	if outOfOrder {
		p := newOOOPair(t, 1, 8)
		f.l, f.x, f.y = p.loopback, p.qps[0], p.qps[1]
		if err := f.y.PostRecv(&verbs.RecvWR{ID: 1}); err != nil {
			t.Fatal(err)
		}
		p.order(1, verbs.OpWrite, 0, 64)
	} else {
		f.l = newLoopback(t, 1)
		f.x = f.l.connect(verbs.RC, rocev2.PMTU1024, 8)
		f.y = f.l.e.qps.Lookup(f.x.q.Attr().DestQPN)
	}
	f.s = newStampingPeer(f.l, f.x.dest)
	if from == samples.Plain {
		f.s.table = DestSync{Known: true}
		f.l.e.dests.applyEntry(f.x.dest, f.s.reply())
	}
	f.x.dest.guard.provenAt = 1
	f.l.e.Begin(testNow())
	if !outOfOrder {
		f.l.post(f.x, verbs.OpWrite, 64)
	}
	f.l.e.iterate()
	f.l.e.rx.loopback.count = 0 // the packet is lost, and outstanding
	return f
}

// to returns a packet to a queue pair.
func (f *forgedPair) to(x *QP, op rocev2.Opcode, psn rocev2.PSN) rocev2.Datagram {
	d := rocev2.Datagram{Src: us, Dst: us, SrcPort: 0xC000, IPID: 1, DestQP: x.num, Opcode: op, PSN: psn}
	if f.wrong == samples.QPN {
		d.DestQP ^= 0x100
	}
	return d
}

// exact returns the PSN, or the one after it, which is wrong.
func (f *forgedPair) exact(psn rocev2.PSN) rocev2.PSN {
	if f.wrong == samples.PSN {
		return psn.Add(1)
	}
	return psn
}

// deliver has the engine receive a packet. From a peer that stamps it has the token, or not.
func (f *forgedPair) deliver(t *testing.T, from samples.Peer, d rocev2.Datagram) {
	b, err := d.AppendTo(make([]byte, etherLen, 512))
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, make([]byte, f.behind)...)
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	binary.BigEndian.PutUint16(b[etherLen+2:], uint16(len(b)-etherLen))
	f.s.deliver(t, b, from == samples.Stamping && f.wrong != samples.Token)
	f.l.e.iterate()
}

// completed reports whether a completion of an operation came.
func (f *forgedPair) completed(op verbs.Op, status verbs.Status) bool {
	k := f.l.cq.take(f.l.batch[:])
	for _, c := range f.l.batch[:k] {
		if c.Op == op && c.Status == status {
			return true
		}
	}
	return false
}

// refused are the counters of packets without the token that have counted.
func (f *forgedPair) refused() (names []string) {
	for _, c := range f.l.e.count.Unproven() {
		if c.Value != 0 && c.Name != "stamp_questions" {
			names = append(names, c.Name)
		}
	}
	return names
}

// A packet to a queue pair has its effect on a connection with a plain peer if QPN and PSN are right, and on one with
// a peer that stamps if it has the token. The rows of the communication manager show that its messages get there.
func TestForgeries(t *testing.T) {
	for _, c := range []struct {
		kind       string
		peers      samples.Peer
		outOfOrder bool
		packets    func(f *forgedPair) []rocev2.Datagram // each is tried alone, and has the effect
		took       func(f *forgedPair) bool
	}{
		{"data", samples.Both, false, func(f *forgedPair) []rocev2.Datagram {
			d := f.to(f.y, rocev2.RCSendOnly, f.exact(f.y.q.Attr().RQPSN))
			d.Payload, d.AckReq = []byte("forged!!"), true
			return []rocev2.Datagram{d}
		}, func(f *forgedPair) bool { return f.completed(verbs.OpRecv, verbs.StatusSuccess) }},
		{"ACK", samples.Both, false, func(f *forgedPair) []rocev2.Datagram {
			d := f.to(f.x, rocev2.RCAck, f.exact(f.x.q.Attr().SQPSN.Add(-1)))
			d.Syndrome = 0x1f
			return []rocev2.Datagram{d}
		}, func(f *forgedPair) bool { return f.completed(verbs.OpWrite, verbs.StatusSuccess) }},
		{"NAK", samples.Both, false, func(f *forgedPair) []rocev2.Datagram {
			d := f.to(f.x, rocev2.RCAck, f.exact(f.x.q.Attr().SQPSN.Add(-1)))
			d.Syndrome = rocev2.SyndromeNAK(rocev2.NAKRemoteOp)
			return []rocev2.Datagram{d}
		}, func(f *forgedPair) bool { return f.completed(verbs.OpWrite, verbs.StatusRemoteOperation) }},
		{"CNP", samples.Stamping, false, func(f *forgedPair) []rocev2.Datagram {
			return []rocev2.Datagram{f.to(f.x, rocev2.CNP, 0)}
		}, func(f *forgedPair) bool { return len(f.refused()) == 0 }}, // ingress gives it its effect
		{"OACK", samples.Both, true, func(f *forgedPair) (all []rocev2.Datagram) {
			sent := f.y.q.Attr().RQPSN
			psns := []rocev2.PSN{sent, sent &^ 63} // a bit of the bitmap is enough
			if f.wrong == samples.Window {
				psns = []rocev2.PSN{sent.Add(1), sent.Add(-256), sent.Add(256)}
			}
			for _, psn := range psns {
				d := f.to(f.x, rocev2.OpOAck, psn)
				d.OOO = &rocev2.OOOFields{OACK: rocev2.OACKFields{Message: 0x77, Cumulative: psn.Add(-1), Base: psn &^ 63, Bitmap: ^uint64(0), Window: 256}}
				all = append(all, d)
			}
			return all
		}, func(f *forgedPair) bool { return f.completed(verbs.OpWrite, verbs.StatusSuccess) }},
		{"ONOTIFY", samples.Both, true, func(f *forgedPair) (all []rocev2.Datagram) {
			next := f.y.q.Attr().RQPSN
			psns := []rocev2.PSN{next.Add(-256), next, next.Add(255)}
			if f.wrong == samples.TwoWindows {
				psns = []rocev2.PSN{next.Add(-257), next.Add(256)}
			}
			for _, psn := range psns {
				d := f.to(f.y, rocev2.OpONotify, psn)
				d.OOO = &rocev2.OOOFields{Notify: rocev2.ONotifyFields{Message: 0x77, Length: 8}}
				all = append(all, d)
			}
			return all
		}, func(f *forgedPair) bool { return f.completed(verbs.OpRecvNotify, verbs.StatusSuccess) }},
		{"REQ", samples.Stamping, false, toManager(mad.NewREQ(1).Header), managed},
		{"REP", samples.Stamping, false, toManager(mad.NewREP(1, 2, 3).Header), managed},
		{"RTU", samples.Stamping, false, toManager(mad.NewRTU(1, 2, 3).Header), managed},
		{"REJ of a REQ", samples.Stamping, false, toManager(mad.NewREJ(1, 0, 3, mad.KindREQ, mad.ReasonConsumer).Header), managed},
		{"REJ of a connection", samples.Stamping, false, toManager(mad.NewREJ(1, 2, 3, mad.KindREP, mad.ReasonConsumer).Header), managed},
		{"DREQ", samples.Stamping, false, toManager(mad.NewDREQ(1, 2, 3, 4).Header), managed},
	} {
		// Bytes behind the ICRC do not make a packet too long for the option.
		for _, behind := range []int{0, loopbackMTU / 2, loopbackMTU} {
			samples.Try(t, c.kind, c.peers, func(t *testing.T, from samples.Peer, wrong samples.Secret) (took bool, refused []string) {
				all := true
				for i, n := 0, 1; i < n; i++ {
					synctest.Test(t, func(t *testing.T) {
						f := newForgedPair(t, from, c.outOfOrder)
						f.wrong, f.behind = wrong, behind
						f.l.e.StartMADs(new(manager))
						packets := c.packets(f)
						n = len(packets)
						f.deliver(t, from, packets[i])
						had := c.took(f)
						took, all = took || had, all && had
						refused = append(refused, f.refused()...)
					})
				}
				if wrong == samples.Nothing {
					return all, refused
				}
				return took, refused
			})
		}
	}
}

// toManager is a message to the communication manager.
func toManager(m mad.Header) func(f *forgedPair) []rocev2.Datagram {
	return func(*forgedPair) []rocev2.Datagram {
		return []rocev2.Datagram{{Src: us, Dst: us, Opcode: rocev2.UDSendOnly, DestQP: mad.QPN, SrcQP: mad.QPN, QKey: mad.QKey, Payload: m}}
	}
}

// managed reports whether the communication manager got a message.
func managed(f *forgedPair) bool { return f.l.e.count.rxMADs == 1 }

// A notification whose message number is far ahead hides later ones: their numbers count as old. The source may have
// sent any number of messages without one, so the target has no bound for it.
func TestForgedNotificationHidesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newOOOPair(t, 1, 8)
		for range 2 {
			if err := p.qps[1].PostRecv(&verbs.RecvWR{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.iterate(0); err != nil { // the engine takes them
			t.Fatal(err)
		}
		f := &forgedPair{l: p.loopback, x: p.qps[0], y: p.qps[1], s: newStampingPeer(p.loopback, p.qps[0].dest)}
		d := f.to(f.y, rocev2.OpONotify, f.y.q.Attr().RQPSN.Add(255))
		d.OOO = &rocev2.OOOFields{Notify: rocev2.ONotifyFields{Message: 1 << 30}}
		f.deliver(t, samples.Plain, d)
		p.order(7, verbs.OpWriteNotify, 0, 64)
		p.until()
		if len(p.recv) != 1 || p.recv[0].Imm == 7 || p.e.ooo.count.NotifyRepeat != 1 {
			t.Errorf("%+v, %d repeated", p.recv, p.e.ooo.count.NotifyRepeat)
		}
	})
}
