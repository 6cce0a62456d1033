// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Two cards measure each other by the timestamps of their packets (S1.3, S1.4): the network takes
// 7000 ns there and 7000 ns back.
func TestTimestamps(t *testing.T) {
	w, a, b := fourPorts(t)
	w.net.Delay = 7000
	ab, ba := regs.DestOf(a.card, 8), regs.DestOf(b.card, 8) // node 9, at both
	const tokenA, tokenB = 0x1111, 0x2222                    // what stamps to a and to b carry
	ab.SetTxToken(tokenB)
	ab.SetRxToken(tokenA)
	ba.SetTxToken(tokenA)
	ba.SetRxToken(tokenB)
	for _, d := range []regs.Dest{ab, ba} {
		d.SetCapsWord(regs.DestCapsWord(0).WithCaps(1))
	}
	stamped := 0
	w.net.Drop = func(frame []byte) bool {
		p, err := rocev2.ParseFrame(frame)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := p.Stamp(); err == nil && s.Flags&rocev2.StampT1 != 0 && s.T1 == uint64(w.net.Now()) {
			stamped++
		}
		return false
	}
	write := func() {
		t.Helper()
		data := a.fill(0, 3000, 1)
		a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 3000)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
		a.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
		b.wants(0, data, "write")
	}
	write()
	if stamped != 4 || w.net.Sent != 4 {
		t.Errorf("%d of %d packets have a timestamp of their departure", stamped, w.net.Sent)
	}
	if ba.InTxNs() != 7000 || ba.RxPackets() != 3 || ba.TxPackets() != 1 {
		t.Errorf("responder: transmit time %d ns, %d packets received, %d sent", ba.InTxNs(), ba.RxPackets(), ba.TxPackets())
	}
	if ab.TxNs() != 7000 || ab.RxNs() != 7000 || ab.InTxNs() != 7000 || ab.TxPackets() != 3 || ab.QueuedWord().Queued() != 1 {
		t.Errorf("requester: transmit time %d, receive time %d, %d packets sent", ab.TxNs(), ab.RxNs(), ab.TxPackets())
	}
	if want := uint64(3000 + 3*(20+8+12+4) + 16); ab.TxBytes() != want || ba.RxBytes() != want {
		t.Errorf("%d bytes sent, %d received, want %d", ab.TxBytes(), ba.RxBytes(), want)
	}
	// With another token the stamps count for nothing, and the data arrive.
	ba.SetRxToken(tokenB + 1)
	w.net.Delay = 9000
	write()
	if ba.InTxNs() != 7000 || ba.RxUnstamped() != 3 || ab.InTxNs() != 9000 {
		t.Errorf("wrong token: %d ns, %d packets without a stamp; %d ns", ba.InTxNs(), ba.RxUnstamped(), ab.InTxNs())
	}
	// Without the capability no packet has one.
	ab.SetCapsWord(0)
	stamped = 0
	write()
	if stamped != 1 || ab.TxUnstamped() != 3 {
		t.Errorf("%d packets have a timestamp, %d have none", stamped, ab.TxUnstamped())
	}
	// A node that has another address now is not the source of these packets.
	if err := b.d.SetNode(9, netip.MustParseAddr("10.0.0.50"), 0); err != nil {
		t.Fatal(err)
	}
	before := ba.RxPackets()
	if write(); ba.RxPackets() != before {
		t.Errorf("%d packets are counted for a node with another address", ba.RxPackets()-before)
	}
	// A NAK is counted.
	a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 1)}, RemoteAddr: regionVA, RKey: b.mr.RKey() ^ 0x100})
	a.completes(verbs.Completion{WRID: 1, Status: verbs.StatusRemoteAccess, Solicited: true})
	if ab.Naks() != 1 {
		t.Errorf("%d NAKs", ab.Naks())
	}
}
