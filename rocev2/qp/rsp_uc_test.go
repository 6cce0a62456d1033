// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"bytes"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// UC delivers whole messages and drops the others without a response; each line ends with a
// good message of 264 bytes, which must arrive.
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
			x := newTarget(t, verbs.UC)
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
			var want []verbs.Completion
			for i, n := range append(c.done, 264) {
				want = append(want, verbs.Completion{WRID: uint64(i), Op: verbs.OpRecv, Bytes: n})
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

// UC WRITE, with and without immediate data, and immediate data without a receive.
func TestUnreliableWrite(t *testing.T) {
	x := newTarget(t, verbs.UC)
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
	x.wantDone(verbs.Completion{WRID: 1, Op: verbs.OpRecvWriteImm, Bytes: 4, HasImm: true})
	x.q.attr.Access = 0
	x.next(write(ucWO, dataBase+2000, 4, 4))
	if x.count.Malformed != 1 || x.m.regions[dataKey].data[2000] != 0 {
		t.Errorf("WRITE without the right: counted %+v", x.count)
	}
	x.wantOut()
}

// A packet that the engine could not send counts as lost: the message is done after its last
// packet, and the next message keeps its PSN.
func TestUnreliableDropped(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.UC, verbs.UD} {
		x := newSource(t, typ)
		n := uint32(200)
		if typ == verbs.UC {
			n = 300
		}
		for range 3 {
			x.post(verbs.OpSend, n, 0, func(w *verbs.SendWR) {
				if typ == verbs.UD {
					w.AH, w.RemoteQPN = testAH(0), peerQPN
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
		x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess)
		if q := x.q.SendQueued(); q != 0 {
			t.Errorf("%s: %d work requests are still queued", typ, q)
		}
	}
}
