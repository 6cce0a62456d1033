// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	creditLink   = 10_000_000_000 // bit/s
	creditDelay  = 5000           // ns from port to port
	creditRTT    = 2 * creditDelay
	creditBDP    = creditLink / 8 * creditRTT / 1_000_000_000 // 12500 bytes
	creditPacket = 1024
	capStamp     = 1
	capCredit    = 4
)

// creditConfig are parameters for shares of a whole RTT.
func creditConfig(budget uint32) driver.PreCredit {
	return driver.PlanPreCredit(creditLink, creditRTT, budget, creditPacket)
}

// newCreditNodes makes n nodes that understand the option and pre-credit. Tokens differ for each
// pair and direction.
func newCreditNodes(t testing.TB, n int) *world {
	w := newNodes(t, n)
	w.net.Delay = creditDelay
	for i, s := range w.side {
		for j, to := range w.side {
			if i == j {
				continue
			}
			d := s.dest(to)
			d.SetTxToken(uint64(1000*(j+1) + i + 1))
			d.SetRxToken(uint64(1000*(i+1) + j + 1))
			d.SetCapsWord(regs.DestCapsWord(0).WithCaps(capStamp | capCredit))
		}
	}
	return w
}

func (s *side) enable(config driver.PreCredit) {
	s.w.t.Helper()
	if err := driver.EnablePreCredit(s.card, config, 1); err != nil {
		s.w.t.Fatal(err)
	}
}

func (s *side) credits() regs.Precredit { return regs.PrecreditOf(s.card) }

// senders is the list in the registers.
func (s *side) senders() driver.Senders {
	s.w.t.Helper()
	list, err := driver.ReadSenders(s.card)
	if err != nil {
		s.w.t.Fatal(err)
	}
	return list
}

// after runs for some time.
func (w *world) after(ns qp.Time) {
	w.t.Helper()
	end := w.net.Now() + ns
	_ = w.net.Run(ns, func() bool { return w.net.Now() >= end }) // it may be quiet before
}

// event is a packet that entered the network.
type creditEvent struct {
	at       qp.Time
	from, to byte // nodes
	op       rocev2.Opcode
	stamp    rocev2.Stamp
	bytes    uint32
	packet   rocev2.Packet
}

func (e *creditEvent) data() bool {
	o := e.op.Info().Operation
	return o == rocev2.OperationSend || o == rocev2.OperationWrite
}

func (e *creditEvent) credited() bool { return e.stamp.Flags&rocev2.StampCredit != 0 }

// trace records all packets. lose, if not nil, says which are lost.
func (w *world) trace(lose func(e *creditEvent) bool) *[]creditEvent {
	all := new([]creditEvent)
	w.net.Drop = func(frame []byte) bool {
		p, err := rocev2.ParseFrame(slices.Clone(frame))
		if err != nil {
			w.t.Fatal(err)
		}
		e := creditEvent{at: w.net.Now(), from: frame[11], to: frame[5], op: p.Opcode(), bytes: uint32(p.PayloadLen()), packet: p}
		e.stamp, _ = p.Stamp()
		*all = append(*all, e)
		return lose != nil && lose(&e)
	}
	return all
}

// send posts a WRITE of n bytes.
func (e *endpoint) send(n int) {
	e.w.t.Helper()
	e.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{e.sge(0, n)}, RemoteAddr: regionVA, RKey: e.peer.mr.RKey()})
}

// conserved checks the account of a receiver: what was given is delivered, wasted or outstanding,
// and the budget holds.
func (s *side) conserved(budget uint32) {
	s.w.t.Helper()
	c, list := s.credits(), s.senders()
	if c.Granted() != c.Delivered()+c.Unused()+c.Lost()+c.Reclaimed()+uint64(list.Outstanding) {
		s.w.t.Fatalf("granted %d, delivered %d, unused %d, lost %d, reclaimed %d, outstanding %d",
			c.Granted(), c.Delivered(), c.Unused(), c.Lost(), c.Reclaimed(), list.Outstanding)
	}
	sum := list.Free
	for i, e := range list.List {
		sum += e.Share
		if i > 0 && e.Share > list.List[i-1].Share {
			s.w.t.Fatalf("the list is not sorted: %+v", list.List)
		}
	}
	if list.Outstanding > budget || sum != budget {
		s.w.t.Fatalf("%d bytes given away, shares and free %d, budget %d", list.Outstanding, sum, budget)
	}
}
