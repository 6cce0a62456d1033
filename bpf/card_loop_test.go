// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/loop"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/vectors"
)

// labTable is the table of a lab for the policy loop.
type labTable struct {
	l     *lab
	slots []bpf.AgentSlot
}

func (x *labTable) Slots() []bpf.AgentSlot { return x.slots }
func (x *labTable) Collect() (int, error)  { return x.l.agentCall(bpf.AgentCollect, len(x.slots)), nil }
func (x *labTable) Read(n int) error       { x.l.agentCall(bpf.AgentRead, n); return nil }
func (x *labTable) Apply(n int) error      { x.l.agentCall(bpf.AgentApply, n); return nil }
func (x *labTable) Lookup(key bpf.DestKey, d *bpf.DestRegs) (bool, error) {
	return true, x.l.objs.DestTable.Lookup(key, d)
}

// The agent's policy loop makes the same decisions over a card as over the data plane: after
// each packet and each evaluation the entries have the same bits, rates included (S1.6).
func TestPolicyLoopOverCard(t *testing.T) {
	const streams, events = 40, 300
	l := newLab(t)
	slots := l.callBuffer()
	var decisions, decreases uint32
	for seed := range uint64(streams) {
		v := vectors.Random(seed, events)
		l = l.with(t)
		a, b := &bpf.Config{Mtu: 4200, LinkRateBps: 100e9, Policy: *bpf.ParamsFrom(&v.Params)}, &bpf.Config{}
		*b = *a
		var now uint64
		clock := func() uint64 { return now }
		l.config(func(c *bpf.Config) { c.Policy = a.Policy })
		l.know(peer4, func(d *bpf.DestRegs) { *d = v.First() })
		overBPF := loopOver(t, &labTable{l, slots}, a, clock)

		m := card.NewAt(clock)
		overCard := loopOver(t, cardWith(t, m, v.First()), b, clock)
		for i := range v.Events {
			e := &v.Events[i]
			now = e.At
			l.at(now)
			if e.Evaluate {
				for _, x := range []*loop.Loop{overBPF, overCard} {
					if _, err := x.Evaluate(now); err != nil {
						t.Fatal(err)
					}
				}
			} else {
				l.in(fromPeer(t, datagramOf(&e.Packet)))
				m.Receive(1, &e.Packet, now)
			}
			var got bpf.DestRegs
			for w := range bpf.WordsOf(&got) {
				bpf.WordsOf(&got)[w] = m.R64(regs.DestBase + uint64(w)*8)
			}
			if diff := cmp.Diff(l.regs(peer4), got); diff != "" {
				t.Fatalf("seed %d: after event %d (%+v) data plane (-), card (+):\n%s", seed, i, *e, diff)
			}
		}
		d := l.regs(peer4)
		decisions, decreases = decisions+d.Policy.Decisions, decreases+d.Policy.Decreases
	}
	if decisions < streams || decreases < streams/4 {
		t.Errorf("%d decisions, %d decreases in %d streams: they show little", decisions, decreases, streams)
	}
}

// loopOver is a policy loop that paces nothing.
func loopOver(t *testing.T, x loop.Table, cfg *bpf.Config, clock func() uint64) *loop.Loop {
	t.Helper()
	return loop.New(loop.Options{Table: x, Config: cfg, Clock: clock, Log: slog.New(slog.DiscardHandler)})
}

// cardWith is the port of a card whose node 1 is the peer, with an entry.
func cardWith(t *testing.T, m *card.Model, first bpf.DestRegs) *driver.TablePort {
	t.Helper()
	c, err := hwoffload.Open(m)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := driver.NewTable(c)
	if err == nil {
		err = tab.SetNodes(0, []driver.Node{{Number: 1, Addr: peer4}})
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range bpf.WordsOf(&first) {
		m.W64(regs.DestBase+uint64(i)*8, w)
	}
	return tab.Port(0)
}
