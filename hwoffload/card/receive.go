// SPDX-License-Identifier: Apache-2.0

package card

import (
	"math"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
)

// Packet is an arriving packet with a stamp option, as the destination table needs it.
type Packet struct {
	Bytes    uint64 // IP length without the option
	Feedback bool   // an acknowledgement, which the peer sends when data arrives
	Syndrome uint8  // AETH syndrome of feedback: bits 7:5 are 0 = ACK, 1 = RNR NAK, 3 = NAK (IBTA 9.7.5.1.2)
	CE       bool   // the IP header has CE
	Stamp    rocev2.Stamp
}

const (
	noSample    = math.MaxInt64  // a window without a sample
	maxRTT      = 10_000_000_000 // ns; an echo with a larger RTT is ignored
	capStamp    = 1              // the peer understands the option: SR_CAP_STAMP of bpf/lib/abi.h
	capControl  = 4              // the peer understands control packets: SR_CAP_CREDIT of bpf/lib/abi.h
	nakSequence = 0x60           // AETH syndrome: PSN sequence error, a packet before this one is missing
	maxEchoAge  = 1_000_000_000  // ns by which an echo may be older than the latest; an older one is after a clock step
)

// diff48 is the difference of two times in ns of which one is modulo 2^48.
func diff48(a, b uint64) int64 { return int64((a-b)<<16) >> 16 }

const mask48 = 1<<48 - 1

// Receive updates the entry of a node by a packet that arrives at now, in ns of the card's
// clock (S1.3, S1.4). It does what the data plane does in bpf/lib/ingress.h, and leaves the
// same bits. A packet with the wrong token counts as one without an option. A packet of a node
// that has no entry, because the table is full, changes nothing.
//
// It is one step for the driver.
func (m *Model) Receive(node int, p *Packet, now uint64) {
	if node < 1 || node > regs.DestCount {
		return // no entry
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	m.receive(node, p, now)
}

// receive is Receive under the lock. accepted: the option has the right token. rtt is the RTT in ns
// that its echo has measured, 0 = none.
func (m *Model) receive(node int, p *Packet, now uint64) (accepted bool, rtt int64) {
	d := regs.DestOf(inside{m}, node-1)
	s := p.Stamp
	s.T1, s.EchoT1, s.EchoT2 = s.T1&mask48, s.EchoT1&mask48, s.EchoT2&mask48
	d.SetRxPackets(d.RxPackets() + 1)
	d.SetRxBytes(d.RxBytes() + p.Bytes)
	if s.Token == 0 || s.Token != d.RxToken() {
		d.SetRxUnstamped(d.RxUnstamped() + 1)
		return false, 0
	}
	if p.Feedback {
		nak(d, p.Syndrome)
	}
	d.SetLastRxNs(now)
	if p.CE {
		d.SetCes(d.Ces() + 1)
		d.SetQueuedWord(d.QueuedWord().WithCePending(1))
	}
	if s.Flags&rocev2.StampT1 != 0 {
		inTx := diff48(now, s.T1)
		d.SetPeerT1Ns(s.T1)
		d.SetInTxNs(inTx)
		d.SetEchoGuard(^(s.T1 ^ uint64(inTx)))
	}
	if s.Flags&rocev2.StampEcho != 0 {
		rtt = echo(d, &s, now, p.Feedback)
	}
	if s.Flags&rocev2.StampCredit != 0 {
		d.SetCredit(s.Credit)
		d.SetCreditSeqWord(d.CreditSeqWord().WithCreditSeq(uint32(s.CreditSeq)))
	}
	if s.Flags&rocev2.StampCE != 0 {
		d.SetWinCe(d.WinCe() + 1)
	}
	if s.Flags&(rocev2.StampT1|rocev2.StampEcho|rocev2.StampCE) != 0 {
		d.SetQueuedWord(d.QueuedWord().WithQueued(1))
	}
	return true, rtt
}

// nak counts a NAK. A sign of loss counts from the first echo of a packet that left under the
// present rate.
func nak(d regs.Dest, syndrome uint8) {
	switch syndrome >> 5 {
	case 1:
		d.SetRnrs(d.Rnrs() + 1)
		d.SetCreditSeqWord(d.CreditSeqWord().WithWinRnr(1))
	case 3:
		d.SetNaks(d.Naks() + 1)
		stamped := d.CapsWord().Caps()&capStamp != 0
		if syndrome == nakSequence && (!stamped || int64(d.LastEchoT1Ns()-d.ValidAfterNs()) >= 0) {
			d.SetWinLoss(d.WinLoss() + 1)
		}
	default:
		return
	}
	d.SetQueuedWord(d.QueuedWord().WithQueued(1))
}

// echo measures by an echo of the peer that arrives at t3 (S1.4). It returns the RTT, 0 = none.
func echo(d regs.Dest, s *rocev2.Stamp, t3 uint64, feedback bool) int64 {
	turnaround, rtt := diff48(s.T1, s.EchoT2), diff48(t3, s.EchoT1)
	t1 := t3 - uint64(rtt)
	newer := int64(t1 - d.LastEchoT1Ns())
	if d.LastEchoT1Ns() != 0 && newer <= 0 && newer > -maxEchoAge {
		return 0 // not the first echo of this stamp
	}
	if !feedback {
		if s.Flags&rocev2.StampT1 == 0 {
			return 0
		}
		rtt -= turnaround
		turnaround = 0
	}
	if rtt < 0 || rtt > maxRTT {
		return 0
	}
	tx := d.TxNs() + diff48(s.EchoT2-s.EchoT1, uint64(d.TxNs()))
	rx := rtt - tx
	d.SetLastEchoT1Ns(t1)
	d.SetTxNs(tx)
	d.SetRxNs(rx)
	if s.Flags&rocev2.StampT1 != 0 {
		d.SetTurnaroundNs(turnaround)
	}
	if int64(t1-d.ValidAfterNs()) < 0 {
		return rtt // the packet left under an earlier rate
	}
	d.SetWinTxNs(min(d.WinTxNs(), tx))
	d.SetWinRxNs(min(d.WinRxNs(), rx))
	d.SetWinRttNs(min(d.WinRttNs(), rtt))
	d.SetWinSamples(d.WinSamples() + 1)
	return rtt
}
