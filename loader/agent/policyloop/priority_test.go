// SPDX-License-Identifier: Apache-2.0

package policyloop

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/loader/nodefile"
)

// newPriorityLoop is a loop with a node file and a link of 100 Mbit/s.
func newPriorityLoop(t *testing.T, nodes string) *Loop {
	t.Helper()
	file, err := nodefile.Parse(strings.NewReader(nodes), "nodes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Nodes: &file, Config: &bpf.Config{LinkRateBps: 100e6}})
}

const twoLevels = `
nodes:
  - {number: 1, addresses: [10.0.0.1], level: 1, max: 60M}
  - {number: 2, addresses: [10.0.0.2, "fd00::2"], level: 2}
`

// The priorities of the node file reach the destinations, and the mode turns them off.
func TestPriorityOfNodeFile(t *testing.T) {
	l := newPriorityLoop(t, twoLevels)
	params := fourcase.DefaultParams(100e6)
	prio, state := bpf.PriorityAs[priority.Params, priority.State](l.cfg)
	now := 1000 * second
	evaluate := func() (rates [2]uint64) {
		for i := range rates {
			st := &step{key: keyN(byte(i + 1)), regs: &bpf.DestRegs{WinPaced: 1}, sampled: true, policy: fourcase.Regs{RateBps: 100e6}}
			rates[i] = l.enforced(st, &params, now)
		}
		l.ShareOut(now)
		now += uint64(10 * time.Millisecond)
		return rates
	}
	evaluate()
	if got, want := evaluate(), [2]uint64{60e6, 40e6}; got != want || state.Flags != priority.On|priority.Congested {
		t.Errorf("rates %d, want %d; state %+v", got, want, *state)
	}
	prio.Mode = priority.ModeOff
	if got, want := evaluate(), [2]uint64{100e6, 100e6}; got != want || *state != (priority.State{}) {
		t.Errorf("off: rates %d, want %d; state %+v", got, want, *state)
	}
}

func TestNoPriorities(t *testing.T) {
	if newPriorityLoop(t, "nodes: [{number: 1, addresses: [10.0.0.1]}]").prioritizes() {
		t.Error("a file without priorities has some")
	}
	if newPriorityLoop(t, "nodes: []").prioritizes() {
		t.Error("no nodes have priorities")
	}
}

// What the priority policy observes of registers and the four-case policy.
func TestObserve(t *testing.T) {
	params := fourcase.Params{MinRateBps: 7, DeadbandNs: 1000}
	d := bpf.DestRegs{Node: 4, TxBytes: 1000, TxPackets: 10}
	st := step{regs: &d, sampled: true, policy: fourcase.Regs{RateBps: 50, QueueingTxNs: 1000, DecidedNs: 5, DecreasedNs: 3}}
	r := &st.policy
	want := priority.Observation{Node: 4, Bytes: 1140, RateBps: 50, MinBps: 7, DecidedNs: 5, DecreasedNs: 3}
	check := func() {
		t.Helper()
		if diff := cmp.Diff(&want, observe(&st, &params)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	check()
	st.limit, want.LimitBps = 9, 9
	check()
	d.WinPaced, params.Mode = 2, fourcase.ModeFixed
	want.Paced, want.Configured = true, true
	check()
	want.Queued = true
	r.QueueingTxNs++
	check()
	r.QueueingTxNs, r.Action = 0, fourcase.ActionLossCut
	check()
	r.Action = fourcase.ActionCECut
	check()
}
