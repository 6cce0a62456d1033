// SPDX-License-Identifier: Apache-2.0

package card

import (
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/internal/tokenbucket"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// The destination table (S1.2 to S1.4, S1.8, S1.9), as the engine sees it. Data to a node leaves at rate_bps of its entry, by
// the token bucket of the data plane: it may leave if next_tx_ns has come, and moves it by what its frame takes. A
// card has one user of a destination, so the rates of the stack and of the engine have no effect. ACKs are neither held
// back nor counted. Packets to a node whose entry has the capability leave with the option, as bpf/lib/egress.h has it.

// burstNs is what a destination that was idle may send at once, as time at its rate. It covers a
// timer of a running model that is late.
const burstNs = 1_000_000

// entry is the entry of a node in block dest. Node 0 has none: nothing is paced or stamped.
type entry struct {
	d     *network
	node  uint32
	ahead uint64 // bytes that have left ahead of the rate since the pacer was idle
}

var _ engine.Entry = (*entry)(nil)

// entryOf returns the entry of a node.
func (d *network) entryOf(node uint32) *entry {
	if node > regs.DestCount {
		node = 0
	}
	e := d.entries[node]
	if e == nil {
		e = &entry{d: d, node: node}
		d.entries[node] = e
	}
	return e
}

func (e *entry) regs() regs.Dest { return regs.DestOf(e.d.in, int(e.node)-1) }

// ID implements engine.Entry.
func (e *entry) ID() uint32 { return e.node }

// Rate implements engine.Entry.
func (e *entry) Rate() uint64 {
	if e.node == 0 {
		return 0
	}
	return e.regs().RateBps()
}

// Wait implements engine.Entry. No packet waits for longer than the longest frame, and what has left ahead of the rate,
// take at the present rate: next_tx_ns that is later is of a lower rate, and becomes earlier.
func (e *entry) Wait(now qp.Time) qp.Time {
	rate := e.Rate()
	if rate == 0 {
		return 0
	}
	r, at := e.regs(), e.d.time(now)
	wait := int64(r.NextTxNs() - at)
	if most := int64((FrameLen + e.ahead) * 8_000_000_000 / rate); wait > most {
		wait = most
		r.SetNextTxNs(at + uint64(wait))
	}
	return qp.Time(wait)
}

// Charge implements engine.Entry.
func (e *entry) Charge(now qp.Time, n int, waited qp.Time, ahead bool) {
	if e.node == 0 {
		return
	}
	r, at := e.regs(), e.d.time(now)
	b := tokenbucket.Bucket{RateBps: r.RateBps(), BurstNs: burstNs, NextTxNs: r.NextTxNs()}
	if b.RateBps != 0 {
		if int64(b.NextTxNs-at) <= 0 {
			e.ahead = 0
		}
		if ahead {
			e.ahead += uint64(n)
		}
		b.Departure(at, uint32(n))
		r.SetNextTxNs(b.NextTxNs)
	}
	if !ahead && waited > 0 {
		r.SetPacedNs(r.PacedNs() + uint64(waited))
		r.SetWinPaced(r.WinPaced() + 1)
	}
}

// Understands implements engine.Entry.
func (e *entry) Understands() (stamps, control bool) {
	if e.node == 0 {
		return false, false
	}
	caps := e.regs().CapsWord().Caps()
	return caps&capStamp != 0, caps&capControl != 0
}

// Proof implements engine.Entry.
func (e *entry) Proof(now qp.Time, s *rocev2.Stamp) bool {
	if e.node == 0 {
		return false
	}
	*s = rocev2.Stamp{Flags: rocev2.StampT1, Token: e.regs().TxToken(), T1: e.d.time(now)}
	e.d.out.stamped = true
	return true
}

// Stamp implements engine.Entry.
func (e *entry) Stamp(now qp.Time, size, mtu int, s *rocev2.Stamp) bool {
	if e.node == 0 {
		return false
	}
	r, at := e.regs(), e.d.time(now)
	r.SetTxPackets(r.TxPackets() + 1)
	r.SetTxBytes(r.TxBytes() + uint64(size))
	r.SetLastTxNs(at)
	r.SetQueuedWord(r.QueuedWord().WithQueued(1))
	if r.CapsWord().Caps()&capStamp == 0 || size+rocev2.StampLen > mtu {
		r.SetTxUnstamped(r.TxUnstamped() + 1)
		return false
	}
	*s = rocev2.Stamp{Flags: rocev2.StampT1, Token: r.TxToken(), T1: at}
	t1, inTx := r.PeerT1Ns(), uint64(r.InTxNs())
	if r.EchoGuard() == ^(t1^inTx) && diff48(at, t1+inTx) < echoMaxAge {
		s.Flags |= rocev2.StampEcho
		s.EchoT1, s.EchoT2 = t1, t1+inTx
	}
	if r.QueuedWord().CePending() != 0 {
		r.SetQueuedWord(r.QueuedWord().WithCePending(0))
		s.Flags |= rocev2.StampCE
	}
	r.SetWinDueWord(r.WinDueWord().WithWinDue(1))
	e.d.out.stamped = true
	return true
}
