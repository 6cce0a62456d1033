// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

func ud(n int) dg {
	return dg{Opcode: rocev2.UDSendOnly, QKey: 0x1234, SrcQP: peerQPN, Payload: pattern(6, n)}
}

// The 40 bytes in front of the data: zeros and the IPv4 header, or the IPv6 header.
func TestDatagram(t *testing.T) {
	x := newTarget(t, UD)
	x.postRecv(0, 4, 300)
	d := ud(5)
	d.Opcode, d.Imm, d.Solicited = rocev2.UDSendOnlyImm, 77, true
	d.PSN = 0x123456 // says nothing
	x.in(d)
	x.wantDone(Completion{WRID: 0, Op: OpRecv, Bytes: 45, HasGRH: true, SrcQP: peerQPN, HasImm: true, Imm: 77, Solicited: true})
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
	x.wantDone(Completion{WRID: 1, Op: OpRecv, Bytes: 296, HasGRH: true, SrcQP: peerQPN})
	if !bytes.Equal(buf[300:340], b[:40]) {
		t.Errorf("GRH area: %x, want the IPv6 header %x", buf[300:340], b[:40])
	}
	x.wantOut()
	x.wantEvents(EventEstablished)
}

// What is wrong with a datagram drops it, counted, and leaves its receive to the next.
func TestDatagramDrops(t *testing.T) {
	x := newTarget(t, UD)
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
	x.wantDone(Completion{WRID: 3, Op: OpRecv, Bytes: 60, HasGRH: true, SrcQP: peerQPN})
	if x.q.State() != RTR {
		t.Errorf("now in %s", x.q.State())
	}
}

// A receive whose own list is wrong ends the queue pair, with a completion.
func TestDatagramBadReceive(t *testing.T) {
	x := newTarget(t, UD)
	x.q.PostRecv(&RecvWR{ID: 1, SGL: []SGE{{Addr: bufBase, Len: 100, LKey: 0xBAD}}})
	x.q.PostRecv(&RecvWR{ID: 2})
	x.in(ud(4))
	x.wantDone(Completion{WRID: 1, Status: LocalProtection, Op: OpRecv, Solicited: true}, Completion{WRID: 2, Status: WRFlushed, Op: OpRecv, Solicited: true})
	if x.q.State() != Err {
		t.Errorf("now in %s", x.q.State())
	}
	x.wantOut()
}

const (
	ucSF, ucSM, ucSL, ucSO = rocev2.UCSendFirst, rocev2.UCSendMiddle, rocev2.UCSendLast, rocev2.UCSendOnly
	ucWF, ucWL, ucWO       = rocev2.UCWriteFirst, rocev2.UCWriteLast, rocev2.UCWriteOnly
)

// UC delivers whole messages and drops the others without an answer; each line ends
// with a good message of 264 bytes, which must arrive.
func TestUnreliableConnection(t *testing.T) {
	gap := dg{Opcode: rocev2.CNP} // stands for a lost packet
	wrongKey := write(ucWO, dataBase, 8, 8)
	wrongKey.RKey = 0xBAD
	for _, c := range []struct {
		name string
		in   []dg
		done []uint32 // bytes of completions before the last
		show func(*Counters) uint64
		want uint64
	}{
		{"all there", []dg{send(ucSF, 256), send(ucSM, 256), send(ucSL, 4)}, []uint32{516}, func(c *Counters) uint64 { return c.Delivered }, 5},
		{"lost FIRST", []dg{gap, send(ucSM, 256), send(ucSL, 4)}, nil, func(c *Counters) uint64 { return c.OutOfSequence }, 1},
		{"lost MIDDLE", []dg{send(ucSF, 256), gap, send(ucSL, 4)}, nil, func(c *Counters) uint64 { return c.OutOfSequence }, 1},
		{"lost LAST", []dg{send(ucSF, 256), send(ucSM, 256), gap}, nil, func(c *Counters) uint64 { return c.OutOfSequence }, 1},
		{"LAST never sent", []dg{send(ucSF, 256)}, nil, func(c *Counters) uint64 { return c.Malformed }, 1},
		{"lost between messages", []dg{send(ucSO, 4), gap, send(ucSO, 12)}, []uint32{4, 12}, func(c *Counters) uint64 { return c.OutOfSequence }, 1},
		{"FIRST too short", []dg{send(ucSF, 252), send(ucSL, 4)}, nil, func(c *Counters) uint64 { return c.Malformed }, 1},
		{"MIDDLE between messages", []dg{send(ucSM, 256)}, nil, func(c *Counters) uint64 { return c.Malformed }, 1},
		{"longer than the receive", []dg{send(ucSF, 256), send(ucSM, 256), send(ucSL, 100)}, nil, func(c *Counters) uint64 { return c.LocalError }, 1},
		{"WRITE with a wrong key", []dg{wrongKey}, nil, func(c *Counters) uint64 { return c.RemoteAccess }, 1},
		{"WRITE beyond the region", []dg{write(ucWO, dataBase-4, 8, 8)}, nil, func(c *Counters) uint64 { return c.RemoteAccess }, 1},
		{"WRITE of a wrong length", []dg{write(ucWF, dataBase, 600, 256), write(ucWL, 0, 0, 8)}, nil, func(c *Counters) uint64 { return c.Malformed }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTarget(t, UC)
			x.postRecv(0, 4, 600)
			for _, d := range c.in {
				if d.Opcode == gap.Opcode {
					x.psn = x.psn.Add(1)
					continue
				}
				x.next(d)
			}
			good := pattern(77, 264)
			x.next(dg{Opcode: ucSF, Payload: good[:256]})
			x.next(dg{Opcode: ucSL, Payload: good[256:]})
			var want []Completion
			for i, n := range append(c.done, 264) {
				want = append(want, Completion{WRID: uint64(i), Op: OpRecv, Bytes: n})
			}
			x.wantOut()
			x.wantDone(want...)
			if got := c.show(&x.count); got != c.want {
				t.Errorf("counted %+v", x.count)
			}
			if got := x.m.regions[bufKey].data[600*len(c.done):][:264]; !bytes.Equal(got, good) {
				t.Errorf("the receive holds %x: not filled anew", got)
			}
		})
	}
}

// UC WRITE, with and without immediate data, and what needs a receive that is not there.
func TestUnreliableWrite(t *testing.T) {
	x := newTarget(t, UC)
	x.next(write(ucWF, dataBase, 260, 256))
	x.next(write(ucWL, 0, 0, 4))
	if got := x.m.regions[dataKey].data[:260]; !bytes.Equal(got[:256], pattern(9, 256)) || !bytes.Equal(got[256:], pattern(9, 4)) {
		t.Errorf("memory holds %x", got)
	}
	imm := write(rocev2.UCWriteOnlyImm, dataBase+1000, 4, 4)
	x.next(imm)
	x.next(send(ucSO, 4))
	if x.count.NoBuffer != 2 || x.m.regions[dataKey].data[1000] != 0 {
		t.Errorf("without a receive: counted %+v", x.count)
	}
	x.postRecv(1, 1, 0)
	x.next(imm)
	x.wantDone(Completion{WRID: 1, Op: OpRecvWriteImm, Bytes: 4, HasImm: true})
	x.q.attr.Access = 0
	x.next(write(ucWO, dataBase+2000, 4, 4))
	if x.count.Malformed != 1 || x.m.regions[dataKey].data[2000] != 0 {
		t.Errorf("WRITE without the right: counted %+v", x.count)
	}
	x.wantOut()
}

// A packet that the engine could not send is a lost one: the message is done when its
// last packet was handed out, and the next keeps its own number.
func TestUnreliableDropped(t *testing.T) {
	for _, typ := range []Type{UC, UD} {
		x := newSource(t, typ)
		n := uint32(200)
		if typ == UC {
			n = 300
		}
		for range 3 {
			x.post(OpSend, n, 0, func(w *SendWR) {
				if typ == UD {
					w.AH = &AH{QPN: peerQPN}
				}
			})
		}
		var out Outbound
		for i := 0; x.q.NextData(x.now, &out); i++ {
			if i%2 == 0 {
				out.Drop()
			} else if !out.Fill(make([]byte, out.PayloadLen)) {
				t.Fatal("no payload")
			}
		}
		x.wantDone(0, Success, Success, Success)
		if q := x.q.SendQueued(); q != 0 {
			t.Errorf("%s: %d work requests are still queued", typ, q)
		}
	}
}

// NextAH tells where the next packet goes before it is taken, and nothing without one.
func TestNextAH(t *testing.T) {
	x := newSource(t, UD)
	if x.q.NextAH() != nil {
		t.Error("a handle, and nothing was posted")
	}
	for i := range 3 {
		x.post(OpSend, 4, 0, func(w *SendWR) { w.AH = &AH{QPN: uint32(100 + i), Path: i} })
	}
	for i := range 3 {
		ah := x.q.NextAH()
		if ah == nil || ah.Path != i {
			t.Fatalf("packet %d: %+v", i, ah)
		}
		if !x.q.NextData(x.now, &x.out) || x.out.AH != ah || x.out.DestQP != uint32(100+i) {
			t.Fatalf("packet %d went to %#x", i, x.out.DestQP)
		}
		x.out.Drop()
	}
	if x.q.NextAH() != nil {
		t.Error("a handle, and all is sent")
	}
	if y := newSource(t, RC); y.q.NextAH() != nil {
		t.Error("a handle of a connection")
	}
}
