// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/hwoffload/vectors"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// agentOver starts the agent of a card whose node 1 is the peer of a stream.
func agentOver(t *testing.T, d hwoffload.Device, v *vectors.Vector) *driver.Agent {
	t.Helper()
	c, err := hwoffload.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := driver.NewTable(c)
	if err == nil {
		err = tab.SetNodes(0, []driver.Node{{1, addr(1), 0}})
	}
	if err == nil {
		err = tab.SetParams(*bpf.ParamsFrom(&v.Params))
	}
	if err != nil {
		t.Fatal(err)
	}
	first := v.First()
	for i, w := range bpf.WordsOf(&first) {
		c.W64(regs.DestBase+uint64(i)*8, w)
	}
	a, err := driver.NewAgent(tab, options(tab))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The agent drives the simulated RTL as it drives the model: after each packet and each
// evaluation the entries have the same bits.
func TestAgentOverRTL(t *testing.T) {
	require.Command(t, "verilator", "g++", "make")
	s, err := rtl.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var now uint64
	var decisions, decreases uint32
	const streams, events = 10, 300
	for seed := range uint64(streams) {
		v := vectors.Random(seed, events)
		m := card.NewAt(func() uint64 { return now })
		overRTL, overModel := agentOver(t, s, &v), agentOver(t, m, &v)
		var want, got bpf.DestRegs
		for i := range v.Events {
			e := &v.Events[i]
			now = e.At
			s.SetClock(now, false)
			if e.Evaluate {
				for _, a := range []*driver.Agent{overRTL, overModel} {
					if _, err := a.Evaluate(); err != nil {
						t.Fatal(err)
					}
				}
			} else {
				s.Receive(1, &e.Packet, now)
				m.Receive(1, &e.Packet, now)
			}
			hwoffload.ReadWords(s, regs.DestBase, bpf.WordsOf(&got))
			hwoffload.ReadWords(m, regs.DestBase, bpf.WordsOf(&want))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d: after event %d (%+v) model (-), RTL (+):\n%s", seed, i, *e, diff)
			}
		}
		decisions, decreases = decisions+got.Policy.Decisions, decreases+got.Policy.Decreases
	}
	if decisions < streams || decreases == 0 {
		t.Errorf("%d decisions, %d decreases in %d streams: they show little", decisions, decreases, streams)
	}
}
