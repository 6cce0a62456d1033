// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func ud(n int) dg {
	return dg{Opcode: rocev2.UDSendOnly, QKey: 0x1234, SrcQP: peerQPN, Payload: pattern(6, n)}
}

// The 40 bytes before the data: zeros and the IPv4 header, or the IPv6 header.
func TestDatagram(t *testing.T) {
	x := newTarget(t, verbs.UD)
	x.postRecv(0, 4, 300)
	d := ud(5)
	d.Opcode, d.Imm, d.Solicited = rocev2.UDSendOnlyImm, 77, true
	d.PSN = 0x123456 // is ignored
	x.in(d)
	x.wantDone(verbs.Completion{WRID: 0, Op: verbs.OpRecv, Bytes: 45, HasGRH: true, IPv4: true, SrcQP: peerQPN, HasImm: true, Imm: 77, Solicited: true})
	const grh4 = "0000000000000000000000000000000000000000" + "4500004000004000" + "4011b6a9c0000202c0000201"
	buf := x.m.regions[bufKey].data
	if got := hex.EncodeToString(buf[:40]); got != grh4 {
		t.Errorf("GRH area:\n got %s\nwant %s", got, grh4)
	}
	if !bytes.Equal(buf[40:45], pattern(6, 5)) || buf[45] != 0 {
		t.Errorf("data: %x", buf[40:46])
	}

	six := ud(256)
	six.Src, six.Dst, six.DestQP = netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("2001:db8::1"), targetQPN
	p := coded(t, six, nil)
	b := p.Datagram()
	x.q.Receive(x.now, &p)
	x.wantDone(verbs.Completion{WRID: 1, Op: verbs.OpRecv, Bytes: 296, HasGRH: true, SrcQP: peerQPN})
	if !bytes.Equal(buf[300:340], b[:40]) {
		t.Errorf("GRH area: %x, want the IPv6 header %x", buf[300:340], b[:40])
	}
	x.wantOut()
	x.wantEvents(verbs.EventQPEstablished)
}

// Errors of a datagram drop it, counted, and leave its receive for the next one.
func TestDatagramDrops(t *testing.T) {
	x := newTarget(t, verbs.UD)
	x.in(ud(5))
	if x.count.NoBuffer != 1 {
		t.Errorf("no receive: counted %+v", x.count)
	}
	x.postRecv(3, 1, 60)
	key := ud(5)
	key.QKey++
	x.in(key)
	if x.count.BadQKey != 1 {
		t.Errorf("wrong Q_Key: counted %+v", x.count)
	}
	x.in(ud(21))
	if x.count.LocalError != 1 {
		t.Errorf("too long for the receive: counted %+v", x.count)
	}
	x.in(ud(257))
	if x.count.Malformed != 1 {
		t.Errorf("longer than the PMTU: counted %+v", x.count)
	}
	p := shorten(t, build(t, ud(20)))
	x.q.Receive(x.now, &p)
	if x.count.Malformed != 2 {
		t.Errorf("wrong pad: counted %+v", x.count)
	}
	x.wantDone()
	x.in(ud(20))
	x.wantDone(verbs.Completion{WRID: 3, Op: verbs.OpRecv, Bytes: 60, HasGRH: true, IPv4: true, SrcQP: peerQPN})
	if x.q.State() != verbs.StateRTR {
		t.Errorf("now in %s", x.q.State())
	}
}

// A receive with a wrong list ends the queue pair, with a completion.
func TestDatagramBadReceive(t *testing.T) {
	x := newTarget(t, verbs.UD)
	x.q.PostRecv(&verbs.RecvWR{ID: 1, SGL: []verbs.SGE{{Addr: bufBase, Len: 100, LKey: 0xBAD}}})
	x.q.PostRecv(&verbs.RecvWR{ID: 2})
	x.in(ud(4))
	x.wantDone(verbs.Completion{WRID: 1, Status: verbs.StatusLocalProtection, Op: verbs.OpRecv, Solicited: true}, verbs.Completion{WRID: 2, Status: verbs.StatusWRFlushed, Op: verbs.OpRecv, Solicited: true})
	if x.q.State() != verbs.StateErr {
		t.Errorf("now in %s", x.q.State())
	}
	x.wantOut()
}

const (
	ucSF, ucSM, ucSL, ucSO = rocev2.UCSendFirst, rocev2.UCSendMiddle, rocev2.UCSendLast, rocev2.UCSendOnly
	ucWF, ucWL, ucWO       = rocev2.UCWriteFirst, rocev2.UCWriteLast, rocev2.UCWriteOnly
)
