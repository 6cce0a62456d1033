// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

// The worked example of S1.5, through the programs of both nodes: node 1 sends to
// node 4 at 0; node 4 receives at 5 and stores transmit time 5 for node 1;
// the feedback arrives at node 1 at 8; node 1 stores (5, 3) for node 4.
func TestWorkedExample(t *testing.T) {
	addr := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }
	node1, node4 := newLab(t), newLab(t)
	for _, n := range []*lab{node1, node4} {
		n.config(func(c *bpf.Config) { c.Mac = [6]byte{} })
	}
	node1.know(addr(4), aware, func(d *bpf.DestRegs) { d.Node, d.RxToken, d.TxToken = 4, 41, 14 })
	node4.know(addr(1), aware, func(d *bpf.DestRegs) { d.Node, d.RxToken, d.TxToken = 1, 14, 41 })

	data := rocev2.Datagram{Src: addr(1), Dst: addr(4), Opcode: rocev2.RCWriteOnly, DestQP: 17, PSN: 1, AckReq: true, Payload: make([]byte, 64)}
	feedback := rocev2.Datagram{Src: addr(4), Dst: addr(1), Opcode: rocev2.RCAck, DestQP: 18, PSN: 1, Syndrome: 0x1f}

	node1.at(0)
	_, onWire := node1.out(fromPeer(t, data))
	if s := stampOf(t, onWire); s != (rocev2.Stamp{Flags: rocev2.StampT1, Token: 14, T1: 0}) {
		t.Fatalf("the data packet says %+v", s)
	}

	node4.at(5)
	node4.in(onWire)
	if r := node4.regs(addr(1)); r.InTxNs != 5 {
		t.Errorf("node 4 stores transmit time %d for node 1, want 5", r.InTxNs)
	}
	_, onWire = node4.out(fromPeer(t, feedback)) // turnaround is 0 in the example
	if s := stampOf(t, onWire); s != (rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, Token: 41, T1: 5, EchoT1: 0, EchoT2: 5}) {
		t.Fatalf("the feedback says %+v", s)
	}

	node1.at(8)
	node1.in(onWire)
	if r := node1.regs(addr(4)); r.TxNs != 5 || r.RxNs != 3 {
		t.Errorf("node 1 stores (%d, %d) for node 4, want (5, 3)", r.TxNs, r.RxNs)
	}
}

// The same where nothing acknowledges the data (UC): node 4 has nothing to send, and its
// agent sends an ECHO 5 ms later. Node 1 stores the same times.
func TestWorkedExampleECHO(t *testing.T) {
	addr := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }
	node1, node4 := newLab(t), newLab(t)
	for _, n := range []*lab{node1, node4} {
		n.config(func(c *bpf.Config) { c.Mac = [6]byte{} })
	}
	node1.know(addr(4), aware, func(d *bpf.DestRegs) { d.RxToken, d.TxToken = 41, 14 })
	node4.know(addr(1), aware, func(d *bpf.DestRegs) { d.RxToken, d.TxToken = 14, 41 })
	data := rocev2.Datagram{Src: addr(1), Dst: addr(4), Opcode: rocev2.UCSendOnly, DestQP: 17, PSN: 1, Payload: make([]byte, 64)}

	node1.at(0)
	_, onWire := node1.out(fromPeer(t, data))
	node4.at(5)
	node4.in(onWire)
	if n := node4.agentCall(bpf.AgentCollect, 9); n != 1 {
		t.Errorf("the agent of node 4 evaluates %d destinations, want node 1", n)
	}
	b := make([]byte, rocev2.MaxHelloLen)
	n, err := rocev2.BuildEcho(b, addr(4), addr(1))
	if err != nil {
		t.Fatal(err)
	}
	node4.at(5_000_005)
	_, onWire = node4.out(ethernet(peerMAC, usMAC, b[:n]))
	node1.at(5_000_008)
	if verdict, _ := node1.in(onWire); verdict != xdpDrop {
		t.Errorf("verdict %d: an ECHO is for the table alone", verdict)
	}
	if r := node1.regs(addr(4)); r.TxNs != 5 || r.RxNs != 3 {
		t.Errorf("node 1 stores (%d, %d) for node 4, want (5, 3)", r.TxNs, r.RxNs)
	}
}
