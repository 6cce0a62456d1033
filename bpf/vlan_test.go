// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// No frame of a VLAN reaches the queue pairs, the communication manager, the control packets or the table
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

// inVLAN is egress for a packet whose VLAN tag is in the metadata of the skb, as that of a VLAN interface is: a program that
// adds the tag, and calls softroce_egress.
func (l *lab) inVLAN(control uint16) *ebpf.Program {
	l.t.Helper()
	next, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	l.must(err)
	l.t.Cleanup(func() { next.Close() })
	l.must(next.Put(uint32(0), l.objs.SoftroceEgress))
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.Mov.Imm(asm.R2, 0x0081), // 0x8100 in network byte order
		asm.Mov.Imm(asm.R3, int32(control)),
		asm.FnSkbVlanPush.Call(),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, next.FD()),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, tcDrop), // not reached
		asm.Return(),
	}})
	l.must(err)
	l.t.Cleanup(func() { p.Close() })
	return p
}

// A packet of a VLAN interface above the attached one leaves untouched; one with a priority tag is the
// interface's own (S7).
func TestEgressOfVLANInterface(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct {
		control uint16
		count   string
	}{{5, "tx_vlan"}, {5 | 7<<13, "tx_vlan"}, {4095, "tx_vlan"}, {0, "tx_stamped"}, {7 << 13, "tx_stamped"}} {
		l := l.with(t)
		l.know(peer4, aware)
		before := l.regs(peer4)
		f := toPeer(t, write(64))
		verdict, out := l.run(l.inVLAN(c.control), &ebpf.RunOptions{Data: f})
		other := c.count == "tx_vlan"
		if verdict != tcNext || bytes.Equal(out, f) != other || (l.regs(peer4) == before) != other {
			t.Errorf("tag %#x: verdict %d, %d bytes of %d", c.control, verdict, len(out), len(f))
		}
		l.wantCounters(c.count)
	}
}
