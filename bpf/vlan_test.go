// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// No frame of a VLAN reaches the queue pairs, the connection manager, the control packets or the table
// of the interface: it passes as it is (S7).
func TestVLANPassesUnread(t *testing.T) {
	l := newLab(t)
	l.config(func(c *bpf.Config) { c.Steered = 1 })
	for _, qpn := range []uint32{17, mad.QPN, rocev2.ControlQPN} {
		if err := l.objs.SteerTable.Put(qpn, &bpf.Steer{Queues: 1}); err != nil {
			t.Fatal(err)
		}
	}
	full := rocev2.Stamp{Flags: 15, T1: labStart - 700, EchoT1: labStart - 100, EchoT2: 5, Credit: 1, CreditSeq: 1}
	credit := stamped(rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.OpCreditGrant, DestQP: rocev2.ControlQPN}, full)
	request := gsi(mad.NewREQ(1).Header)
	for _, link := range vlans {
		for _, v6 := range []bool{false, true} {
			for _, d := range []rocev2.Datagram{write(64), stamped(write(64), full), stamped(ack(9), full), hello(false),
				helloAck(false, 0), echo(false, 1, 2, 3), credit, request} {
				t.Run(fmt.Sprintf("%s/v6=%v/%s", link.name, v6, d.Opcode), func(t *testing.T) {
					l := l.with(t)
					if v6 {
						d = over6(d)
					}
					l.know(peerOf(v6), aware)
					before := l.regs(peerOf(v6))
					f := fromPeer(t, d, link.tags...)
					if verdict, out := l.in(f); verdict != xdpPass || !bytes.Equal(out, f) {
						t.Errorf("verdict %d\n got %x\nwant %x", verdict, out, f)
					}
					l.wantCounters("rx_vlan")
					l.wantNoEvent()
					if after := l.regs(peerOf(v6)); after != before {
						t.Errorf("the entry changed: %+v", after)
					}
				})
			}
		}
	}
}

// Nor does a frame that leaves for a VLAN: it gets no stamp, and makes no entry.
func TestEgressOfVLANPassesUntouched(t *testing.T) {
	l := newLab(t)
	for _, link := range append(vlans, links[1]) {
		for _, d := range []rocev2.Datagram{write(64), over6(write(64))} {
			f := toPeer(t, d, link.tags...)
			if verdict, out := l.out(f); verdict != tcNext || !bytes.Equal(out, f) {
				t.Errorf("%s: verdict %d\n got %x\nwant %x", link.name, verdict, out, f)
			}
			l.wantCounters("tx_vlan")
			l.wantNoEvent()
		}
	}
	if n := l.entries(); n != 0 {
		t.Errorf("%d entries", n)
	}
}
