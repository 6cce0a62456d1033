// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// twoLevels is a loop with two nodes and a link of 100 Mbit/s. Node 1 has the higher level and a
// maximum.
func twoLevels() *Loop {
	s := priority.NewSharer()
	s.Define(priority.Node{ID: 1, Level: 1, Max: 60e6}, keyN(1).Addr)
	s.Define(priority.Node{ID: 2, Level: 2, Max: priority.All}, keyN(2).Addr)
	return New(Options{Sharer: s, Config: &bpf.Config{LinkRateBps: 100e6}})
}

// The priorities of the nodes reach the destinations, and the mode turns them off.
func TestPriorityOfNodes(t *testing.T) {
	l := twoLevels()
	params := fourcase.DefaultParams(100e6)
	prio, state := bpf.PriorityAs[priority.Params, priority.State](l.cfg)
	now := 1000 * second
	evaluate := func() (rates [2]uint64) {
		for i := range rates {
			st := &step{key: keyN(byte(i + 1)), regs: &bpf.DestRegs{WinPaced: 1}, sampled: true, policy: fourcase.Regs{RateBps: 100e6}}
			rates[i] = l.bounded(st, &params, params.MaxRateBps, now)
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
	if New(Options{Config: &bpf.Config{LinkRateBps: 100e6}}).prioritizes() {
		t.Error("no nodes have priorities")
	}
}

// What the priority policy observes of registers and the four-case policy.
func TestObserve(t *testing.T) {
	params := fourcase.Params{MinRateBps: 7, DeadbandNs: 1000}
	d := bpf.DestRegs{TxBytes: 1000, TxPackets: 10}
	st := step{regs: &d, sampled: true, policy: fourcase.Regs{RateBps: 50, QueueingTxNs: 1000, DecidedNs: 5, DecreasedNs: 3}}
	r := &st.policy
	want := priority.Observation{Bytes: 1140, RateBps: 40, AllowedBps: 50, MinBps: 7, DecidedNs: 5, DecreasedNs: 3}
	check := func() {
		t.Helper()
		if diff := cmp.Diff(&want, observe(&st, &params, 40)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	check()
	st.limit, want.LimitBps = 9, 9
	check()
	d.WinPaced, want.Paced = 2, true
	check()
	want.Queued = true
	r.QueueingTxNs++
	check()
	r.QueueingTxNs, r.Action = 0, fourcase.ActionLossCut
	check()
	r.Action = fourcase.ActionCECut
	check()
}
