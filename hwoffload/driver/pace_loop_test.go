// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"log/slog"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// bottleneck is a card that always has data for another one, behind a link with less than a port's
// rate.
type bottleneck struct {
	*world
	a, b *endpoint
	link *card.Link
	next qp.Time // evaluation
	eval func()  // evaluation of the rates, or nil
	got  [32]verbs.Completion
	sent int // messages that have not completed
	done int // messages
}

const (
	loopTick    = qp.Time(10e6) // ns, between evaluations
	loopMessage = 64 << 10
	loopDepth   = 16
)

func newBottleneck(t testing.TB, rate uint64) *bottleneck {
	w := newNodes(t, 2)
	x := &bottleneck{world: w, link: &card.Link{RateBps: rate, Limit: 512 << 10}}
	x.a, x.b = w.pair(w.side[0], w.side[1], rocev2.PMTU4096)
	w.net.Delay = 10_000
	w.net.Limit(x.a.m, 0, x.link)
	const tokenA, tokenB = 0x1111, 0x2222 // what stamps to a and to b carry
	ab, ba := x.a.dest(x.b.side), x.b.dest(x.a.side)
	ab.SetTxToken(tokenB)
	ab.SetRxToken(tokenA)
	ba.SetTxToken(tokenA)
	ba.SetRxToken(tokenB)
	for _, d := range []regs.Dest{ab, ba} {
		d.SetCapsWord(regs.DestCapsWord(0).WithCaps(1))
	}
	return x
}

// agent has the policy loop of the agent decide on the rates of card a.
func (x *bottleneck) agent() {
	x.t.Helper()
	tab, err := driver.NewTable(x.a.card)
	if err != nil {
		x.t.Fatal(err)
	}
	regs.NodesOf(x.a.card).SetSelf(1)
	params := fourcase.DefaultParams(100e9)
	params.IntervalNs = uint64(loopTick)
	if err := tab.SetParams(*bpf.ParamsFrom(&params)); err != nil {
		x.t.Fatal(err)
	}
	if err := tab.Refresh(); err != nil {
		x.t.Fatal(err)
	}
	a, err := driver.NewAgent(tab, driver.AgentOptions{Ports: []driver.AgentPort{tab.Port(0)}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		x.t.Fatal(err)
	}
	x.eval = func() {
		if _, err := a.Evaluate(); err != nil {
			x.t.Fatal(err)
		}
	}
}

// run lets n intervals pass, and returns what arrives, in bit/s.
func (x *bottleneck) run(n int) float64 {
	x.t.Helper()
	start, before := x.net.Now(), x.done
	end := start + qp.Time(n)*loopTick
	err := x.net.Run(600*second, func() bool {
		x.fill()
		if now := x.net.Now(); now >= x.next {
			x.next = now + loopTick
			if x.eval != nil {
				x.eval()
			}
		}
		return x.net.Now() >= end
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return float64(x.done-before) * loopMessage * 8e9 / float64(x.net.Now()-start)
}

// fill takes completions, and posts a message for each.
func (x *bottleneck) fill() {
	n := x.a.cq.Poll(x.got[:])
	for _, c := range x.got[:n] {
		if c.Status != verbs.StatusSuccess {
			x.t.Fatalf("%+v", c)
		}
	}
	x.done, x.sent = x.done+n, x.sent-n
	for ; x.sent < loopDepth; x.sent++ {
		x.a.post(&verbs.SendWR{
			Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{x.a.sge(0, loopMessage)}, RemoteAddr: regionVA, RKey: x.b.mr.RKey(),
		})
	}
}

// The agent's decisions and the card's pacer keep the queue of a bottleneck short, without a loss;
// without decisions the queue overflows (S1.6, S1.8).
func TestPolicyPacesTheDataPath(t *testing.T) {
	x := newBottleneck(t, 1e9)
	x.agent()
	x.run(50)
	for _, rate := range []uint64{1e9, 400e6, 1e9} {
		x.link.RateBps = rate
		x.run(100)
		x.link.Queued, x.link.Dropped = 0, 0
		goodput := x.run(50)
		d := x.a.dest(x.b.side)
		queue := float64(x.link.Queued) * 8e9 / float64(rate)
		t.Logf("link %d: %.0f bit/s arrive, rate %d, queue up to %d bytes, %.0f ns", rate, goodput, d.RateBps(), x.link.Queued, queue)
		if goodput < .7*float64(rate) || float64(d.RateBps()) > 1.5*float64(rate) {
			t.Errorf("%.0f bit/s of %d arrive, the rate is %d", goodput, rate, d.RateBps())
		}
		if x.link.Dropped != 0 || x.link.Queued > x.link.Limit/2 {
			t.Errorf("link %d: a queue of up to %d bytes, %d frames lost", rate, x.link.Queued, x.link.Dropped)
		}
	}

	x = newBottleneck(t, 1e9)
	x.run(20)
	if x.link.Dropped == 0 {
		t.Errorf("without decisions no frame is lost, with a queue of up to %d bytes", x.link.Queued)
	}
	t.Logf("without decisions %d frames are lost in 200 ms", x.link.Dropped)
}
