// SPDX-License-Identifier: Apache-2.0

package card

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// The registers show the receiver's list after each event (S5.2), also one of more senders than the
// array has elements, and its counters.
func TestCreditRegisters(t *testing.T) {
	for nodes, step := range map[uint32]int64{4: 20_000_000, 400: 1_000_000} { // ns between two events
		m := New()
		c, err := hwoffload.Open(m)
		if err != nil {
			t.Fatal(err)
		}
		config := driver.PlanPreCredit(10e9, 10_000, 2_000_000, 1000)
		config.Receiver.ShareBytes = 5000 // of 400 nodes, all have a share
		if nodes == 4 {
			config.Receiver.BufferBytes = 12_500
		}
		if err := driver.EnablePreCredit(c, config, 7); err != nil {
			t.Fatal(err)
		}
		now, longest := int64(1), 0
		rng := rand.New(rand.NewPCG(uint64(nodes), 1))
		for range 3000 {
			r := m.data.control.endpoint.Receiver
			now += rng.Int64N(step)
			id := precredit.SenderID(1 + rng.Uint32N(nodes))
			switch rng.IntN(8) {
			case 0:
				r.Leave(id)
			case 1:
				r.Arrive(now, id, 1000, precredit.Credit{Bytes: 1000, Seq: uint16(rng.Uint32())})
			case 2:
				r.Expire(now)
			default:
				r.NewFlow(now, id)
			}
			for {
				to, g, ok := r.Next(now)
				if !ok {
					break
				}
				r.Return(now, to, precredit.Return{Epoch: g.Epoch, Limit: g.Limit, Seq: g.Seq})
			}
			m.Expire(qp.Time(now))
			got, err := driver.ReadSenders(c)
			if err != nil {
				t.Fatal(err)
			}
			if want := r.List(nil); !slices.Equal(got.List, want) || got.Free != r.Free() || got.Outstanding != r.Outstanding() {
				t.Fatalf("registers %+v,\nwant %+v, free %d, outstanding %d", got, want, r.Free(), r.Outstanding())
			}
			longest = max(longest, len(got.List))
			e, s := regs.PrecreditOf(c), r.Stats()
			counters := [...]uint64{e.FlowsNone(), e.FlowsShare(), e.FlowsFree(), e.FlowsHead()}
			if counters != s.Flows || e.Granted() != s.Given || e.Reclaimed() != s.Reclaimed || e.GrantsAgain() != s.Retries {
				t.Fatalf("counters %v, want %+v", counters, s)
			}
		}
		if nodes > regs.PrecreditListNodeCount && longest <= regs.PrecreditListNodeCount {
			t.Errorf("the longest list has %d senders: the test wants more than the array has", longest)
		}
	}
}

// Parameters that are out of range are not taken, and accounts keep numbers of their own when
// pre-credit is enabled again.
func TestCreditEnable(t *testing.T) {
	m := New()
	c, err := hwoffload.Open(m)
	if err != nil {
		t.Fatal(err)
	}
	e := regs.PrecreditOf(c)
	e.SetControl(regs.PrecreditControl(0).WithEnable(true))
	if e.Status().Active() || m.data.control.endpoint != nil {
		t.Error("active with the parameters after reset")
	}
	config := driver.PlanPreCredit(10e9, 10_000, 100_000, 1000)
	for name, set := range map[string]func(){
		"a share beyond the budget": func() { e.SetShareBytes(100_001) },
		"a life of 2^63 ns":         func() { e.SetLifeNs(1 << 63) },
		"no link":                   func() { e.SetLinkBps(0) },
		"bound 3":                   func() { e.SetBound(regs.PrecreditBound(0).WithBoundFlows(3)) },
	} {
		if err := driver.EnablePreCredit(c, config, 5); err != nil {
			t.Fatal(err)
		}
		e.SetControl(0)
		set()
		e.SetControl(regs.PrecreditControl(0).WithEnable(true))
		if e.Status().Active() {
			t.Errorf("%s: active", name)
		}
	}
	if err := driver.EnablePreCredit(c, config, 5); err != nil {
		t.Fatal(err)
	}
	if !e.Status().Active() || e.FreeBytes() != 100_000 {
		t.Errorf("status %v, %d bytes free", e.Status(), e.FreeBytes())
	}
	m.data.control.endpoint.Receiver.NewFlow(1, 9)
	epoch := m.data.control.endpoint.Receiver.Epoch()
	if err := driver.EnablePreCredit(c, config, 5); err != nil { // the driver has forgotten that it used 5
		t.Fatal(err)
	}
	if got := m.data.control.endpoint.Receiver.Epoch(); got != epoch || epoch == 5 {
		t.Errorf("accounts begin at %d again, want %d", got, epoch)
	}
	if err := driver.DisablePreCredit(c); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, FrameLen)
	if _, _, ok := m.NextFrame(1, buf); ok || m.data.control.endpoint != nil {
		t.Errorf("a frame %v, pre-credit %v after it was disabled", ok, m.data.control.endpoint)
	}
}
