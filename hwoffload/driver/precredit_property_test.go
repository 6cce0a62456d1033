// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/creditwire"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// given is what a test sees on the wire of the pre-credit that one node gives to another, of one
// epoch: running totals, in bytes.
type given struct{ epoch, limit, sent, void uint32 }

// observer adds up the pre-credit of all pairs of nodes from the frames that enter the network.
type observer struct {
	w        *world
	config   driver.PreCredit
	accounts map[[2]byte]*given // accounts by receiver and sender
	flying   []creditEvent      // data on pre-credit that was not lost, of the last creditDelay
	most     uint32             // ever outstanding at one receiver
	grants   int
}

func (o *observer) account(receiver, sender byte) *given {
	k := [2]byte{receiver, sender}
	if o.accounts[k] == nil {
		o.accounts[k] = &given{}
	}
	return o.accounts[k]
}

// see takes a frame. lost: the network loses it.
func (o *observer) see(e *creditEvent, lost bool) {
	switch own, peers := o.account(e.from, e.to), o.account(e.to, e.from); {
	case e.op == rocev2.OpCreditGrant:
		o.grants++
		g := creditwire.Grant(e.packet.CreditGrant())
		if g.Epoch != own.epoch { // what is left of the epoch before can not be used any more
			*own = given{epoch: g.Epoch}
		}
		own.limit = max(own.limit, g.Limit)
	case e.op == rocev2.OpCreditReturn:
		if m := creditwire.Return(e.packet.CreditReturn()); m.Epoch == peers.epoch {
			peers.void = max(peers.void, m.Void)
		}
	case e.data() && e.credited():
		peers.sent = max(peers.sent, e.stamp.Credit)
		if !lost {
			o.flying = append(o.flying, *e)
		}
	case e.credited():
		own.limit = max(own.limit, e.stamp.Credit)
	}
}

// check compares with the registers of a receiver: what its senders have unused, and what is
// certainly in flight, is never more than it takes for outstanding, and that is never more than its
// budget.
func (o *observer) check(s *side) {
	s.conserved(o.config.Receiver.BufferBytes)
	me, now, truth := s.mac[5], o.w.net.Now(), uint32(0)
	for k, a := range o.accounts {
		if k[0] == me {
			truth += a.limit - a.sent - a.void
		}
	}
	o.flying = slices.DeleteFunc(o.flying, func(e creditEvent) bool { return now >= e.at+creditDelay })
	for i := range o.flying {
		if o.flying[i].to == me {
			truth += o.flying[i].bytes
		}
	}
	outstanding := s.senders().Outstanding
	if o.most = max(o.most, outstanding); truth > outstanding {
		o.w.t.Fatalf("at %d node %d: %d bytes are unused or in flight, it takes %d for outstanding", now, me, truth, outstanding)
	}
}

// Whatever the network does, the pre-credit of all senders together stays within the budget, the
// registers are right after each frame, and messages complete.
func TestPropertyPreCreditBudget(t *testing.T) {
	var used, lost, head uint64
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			w := newCreditNodes(t, 4)
			o := &observer{w: w, config: creditConfig(uint32(creditPacket * (2 + rng.IntN(30)))), accounts: map[[2]byte]*given{}}
			for _, s := range w.side {
				s.enable(o.config)
			}
			rate := float64(rng.IntN(3)) * 0.03
			w.net.Faults.Duplicate, w.net.Faults.Reorder, w.net.Faults.ReorderBy = rate, rate, creditDelay
			w.trace(func(e *creditEvent) bool {
				drop := rng.Float64() < rate
				o.see(e, drop)
				for _, s := range w.side {
					o.check(s)
				}
				return drop
			})
			var ends []*endpoint
			for i := range 6 {
				a, b := w.pair(w.side[0], w.side[1+i%3], rocev2.PMTU1024)
				ends = append(ends, a, b)
			}
			for range 40 {
				for range rng.IntN(4) {
					e := ends[rng.IntN(len(ends))]
					n := 1 + rng.IntN(3*creditPacket)
					if rng.IntN(4) == 0 {
						n = 1 + rng.IntN(paceBytes)
					}
					e.post(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{e.sge(0, n)}, RemoteAddr: regionVA, RKey: e.peer.mr.RKey()})
				}
				for _, s := range w.side {
					o.check(s)
				}
				switch rng.IntN(20) {
				case 0:
					w.after(2 * second)
				default:
					w.after(1 + qp.Time(rng.Int64N(10*creditRTT)))
				}
			}
			for _, e := range ends {
				e.send(1)
				if c := e.poll(1)[0]; c.Status != verbs.StatusSuccess {
					t.Fatalf("%+v", c)
				}
			}
			w.quiet()
			for _, s := range w.side {
				o.check(s)
				if l := s.senders(); l.Outstanding != 0 || len(l.List) != 0 {
					t.Errorf("when all is quiet: %+v", l)
				}
				used, lost, head = used+s.credits().Used(), lost+s.credits().Lost(), head+s.credits().FlowsHead()
			}
			if o.grants == 0 || o.most == 0 {
				t.Error("nothing was granted")
			}
		})
	}
	if used == 0 || lost == 0 || head == 0 {
		t.Errorf("the cases are too tame: %d bytes used, %d lost, %d shares of the head", used, lost, head)
	}
}
