// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

// A repeated READ request shows that its response was lost: a retransmission, and no loss of
// this host's data. A repeated READ response shows such a loss.
func TestEgressReadLoss(t *testing.T) {
	type sent struct {
		op  rocev2.Opcode
		qpn uint32
		psn rocev2.PSN
	}
	const (
		write, read         = rocev2.RCWriteOnly, rocev2.RCReadRequest
		first, middle, last = rocev2.RCReadResponseFirst, rocev2.RCReadResponseMiddle, rocev2.RCReadResponseLast
		only                = rocev2.RCReadResponseOnly
	)
	l := newLab(t)
	for _, c := range []struct {
		name        string
		sent        []sent
		regressions uint64
		loss        uint32
	}{
		{"a READ request again", []sent{{read, 17, 5}, {read, 17, 5}, {read, 17, 5}}, 2, 0},
		{"a WRITE again", []sent{{write, 17, 5}, {write, 17, 5}}, 1, 1},
		{"a READ response again", []sent{{only, 17, 5}, {only, 17, 5}}, 1, 1},
		{"in order", []sent{{first, 17, 5}, {middle, 17, 6}, {last, 17, 7}, {only, 17, 8}}, 0, 0},
		{"a part again, which begins in the middle", []sent{{first, 17, 5}, {middle, 17, 6}, {last, 17, 7}, {middle, 17, 6}, {last, 17, 7}}, 1, 1},
		{"twice", []sent{{first, 17, 5}, {last, 17, 6}, {last, 17, 6}, {last, 17, 6}}, 2, 2},
		{"over the wrap", []sent{{only, 17, 0xffffff}, {only, 17, 0}, {only, 17, 0xffffff}}, 1, 1},
		{"requests of the same queue pair have PSNs of their own", []sent{{write, 17, 500}, {only, 17, 5}, {write, 17, 501}, {only, 17, 6}}, 0, 0},
		{"results of ATOMICs and ACKs", []sent{{rocev2.RCAtomicAck, 17, 9}, {rocev2.RCAtomicAck, 17, 8}, {rocev2.RCAck, 17, 3}}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			for _, s := range c.sent {
				l.out(toPeer(t, rocev2.Datagram{Src: peer4, Dst: us4, Opcode: s.op, DestQP: s.qpn, PSN: s.psn}))
			}
			if r := l.regs(peer4); r.PsnRegressions != c.regressions || r.WinLoss != c.loss {
				t.Errorf("%d PSN regressions, %d signs of loss, want %d and %d", r.PsnRegressions, r.WinLoss, c.regressions, c.loss)
			}
		})
	}
}

// READ responses that all wait in the pacer are not lost: the requester's timeout is shorter.
func TestReadResponsesInPacer(t *testing.T) {
	l := newLab(t)
	l.config(func(cfg *bpf.Config) { cfg.Pacer = bpf.PacerHTB })
	for after, want := range map[uint64]uint32{0: 0, 3 * frameNs: 1} {
		l := l.with(t)
		l.know(peer4, paced)
		send := func(psn rocev2.PSN) {
			l.out(toPeer(t, rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.RCReadResponseMiddle, DestQP: 17, PSN: psn, Payload: make([]byte, 64)}))
		}
		l.at(labStart)
		for psn := range rocev2.PSN(4) {
			send(psn)
		}
		l.at(labStart + after)
		send(0)
		if r := l.regs(peer4); r.PsnRegressions != 1 || r.WinLoss != want {
			t.Errorf("again after %d ns: %d PSN regressions, %d signs of loss, want 1 and %d", after, r.PsnRegressions, r.WinLoss, want)
		}
	}
}

// TestAnswerDue: a missing answer is a sign only where feedback is due. A probe measures the RTT
// where there are no stamps, and not with a READ, whose response is queued behind others.
func TestAnswerDue(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct {
		op      rocev2.Opcode
		stamped bool
		want    uint8
		probe   bool
	}{
		{rocev2.RCWriteMiddle, false, 1, true},
		{rocev2.RCSendOnly, false, 1, true},
		{rocev2.RCSendOnly, true, 1, false},
		{rocev2.RCFetchAdd, false, 1, true},
		{rocev2.RCReadRequest, false, 0, false},
		{rocev2.RCReadRequest, true, 1, false},
		{rocev2.RCReadResponseOnly, false, 0, false},
		{rocev2.RCAck, false, 0, false},
		{rocev2.UCWriteOnly, false, 0, false},
		{rocev2.UDSendOnly, false, 0, false},
		{rocev2.RCReadResponseOnly, true, 1, false},
		{rocev2.UCWriteOnly, true, 1, false},
		{rocev2.UDSendOnly, true, 1, false},
	} {
		l := l.with(t)
		l.know(peer4, func(d *bpf.DestRegs) {
			if c.stamped {
				d.Caps = bpf.CapStamp
			}
		})
		l.out(toPeer(t, rocev2.Datagram{Src: peer4, Dst: us4, Opcode: c.op, DestQP: 17, PSN: 5, QKey: 1, AckReq: true}))
		if r := l.regs(peer4); r.WinDue != c.want || (r.ProbeNs != 0) != c.probe {
			t.Errorf("%v, stamped %v: due %d, probe of %d, want %d, %v", c.op, c.stamped, r.WinDue, r.ProbeNs, c.want, c.probe)
		}
	}
}

// Losses of stamped packets count once a packet of the present rate has arrived. For packets
// without a stamp the arrival is unknown, so all count.
func TestLossWaitsForTheRate(t *testing.T) {
	l := newLab(t)
	l.config(func(cfg *bpf.Config) { cfg.Mtu = 1500 })
	for _, c := range []struct {
		name    string
		payload int
		echoed  uint64
		want    uint32
	}{
		{"stamped, of the rate before", 64, 50, 0},
		{"stamped, of this rate", 64, 100, 1},
		{"no room for the option", 1450, 50, 1},
	} {
		l := l.with(t)
		l.know(peer4, func(d *bpf.DestRegs) { d.Caps, d.ValidAfterNs, d.LastEchoT1Ns = bpf.CapStamp, 100, c.echoed })
		for range 2 {
			l.out(toPeer(t, rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.RCReadResponseMiddle, DestQP: 17, PSN: 5, Payload: make([]byte, c.payload)}))
		}
		if r := l.regs(peer4); r.WinLoss != c.want || r.PsnRegressions != 1 {
			t.Errorf("%s: %d signs of loss, %d PSN regressions, want %d and 1", c.name, r.WinLoss, r.PsnRegressions, c.want)
		}
	}
}

// The engine reports retransmissions, losses, and whether feedback is due, in separate fields.
func TestEngineSyncLoss(t *testing.T) {
	l := newLab(t)
	l.know(peer4, func(*bpf.DestRegs) {})
	l.engineSync(bpf.EngineSlot{Key: bpf.KeyOf(peer4), TxPackets: 9, PsnRegressions: 5})
	if r := l.regs(peer4); r.PsnRegressions != 5 || r.WinLoss != 0 || r.WinDue != 0 {
		t.Errorf("READ requests again: %+v", r)
	}
	l.engineSync(bpf.EngineSlot{Key: bpf.KeyOf(peer4), TxPackets: 9, PsnRegressions: 3, Lost: 3, Flags: bpf.AnswerDue})
	if r := l.regs(peer4); r.PsnRegressions != 8 || r.WinLoss != 3 || r.WinDue != 1 {
		t.Errorf("READ responses again: %+v", r)
	}
}
