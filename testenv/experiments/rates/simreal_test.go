// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Two cores play the machines here, and run late by as much as the default target
// of 500 us; the simulator gets the same target.
const target = "750us"

// simRealScenarios are those of testdata, by name.
func simRealScenarios(t *testing.T) map[string]*scenario.Scenario {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	all := map[string]*scenario.Scenario{}
	for _, file := range files {
		s, err := scenario.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		all[s.Name] = s
	}
	return all
}

// TestSimulated holds the criteria of each scenario against the simulation, with round
// trips as they are between real hosts: the same on every machine.
func TestSimulated(t *testing.T) {
	for name, s := range simRealScenarios(t) {
		for _, by := range simRealSenders {
			t.Run(name+"/"+by.name, func(t *testing.T) {
				t.Parallel()
				r, err := simulate(t, s, by, by.rtt)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range s.Criteria {
					v := r.Values[c.Metric]
					t.Logf("%s %s, should be %s", c.Metric, experiment.Text(c.Metric, v), c.Text)
					if !c.Holds(v) {
						t.Errorf("%s is %s, should be %s", c.Metric, experiment.Text(c.Metric, v), c.Text)
					}
				}
			})
		}
	}
}

// TestReality has each sender run a scenario on real interfaces for a while: every flow
// gets across, and there are figures to compare. How they compare depends on the machine
// (`make sim-real`).
func TestReality(t *testing.T) {
	topo.RequireRoot(t)
	for _, by := range simRealSenders {
		t.Run(by.name, func(t *testing.T) {
			s := *simRealScenarios(t)["late-joiner"]
			s.Traffic = slices.Clone(s.Traffic)
			late := *s.Traffic[1].Flows
			late.Start = scenario.Time(500 * time.Millisecond)
			s.Traffic[1].Flows = &late
			s.Measure.From, s.Measure.To = scenario.Time(time.Second), scenario.Time(3*time.Second)
			// A machine that stands still while it is measured has no figures. Four times in a row it does not.
			for try := 1; ; try++ {
				err := reality(t, &s, by).complete()
				if err == nil {
					break
				}
				if try == 4 {
					t.Fatal(err)
				}
				t.Logf("once more: %v", err)
			}
		})
	}
}

// simRealSender is a way to send on real hosts, and how the simulator does it.
type simRealSender struct {
	name     string
	open     func(*scenario.Scenario, []*engines.Host) (Traffic, error)
	scheme   string
	recovery string
	every    time.Duration // time between the agent's decisions
	rtt      time.Duration // RTT between real hosts, when idle
}

var simRealSenders = []simRealSender{
	{"host", func(s *scenario.Scenario, hosts []*engines.Host) (Traffic, error) {
		return Sockets(s, underlying(hosts))
	}, "fourcase-rate", "go-back-n", 10 * time.Millisecond, 500 * time.Microsecond},
	{"engine", Engines, "fourcase", "selective", 5 * time.Millisecond, 80 * time.Microsecond},
}

func underlying(hosts []*engines.Host) (all []*topo.Host) {
	for _, h := range hosts {
		all = append(all, h.Host)
	}
	return all
}

// realRun is what a scenario on real hosts gave.
type realRun struct {
	*experiment.Result
	rtt       time.Duration // least round trip
	decreases int           // readings of the tables that show a decrease
}

// complete returns an error unless every flow got across, some rate was decreased, and there are figures to compare.
func (r *realRun) complete() error {
	if r.rtt <= 0 || len(r.Series.AtNs) == 0 || r.Values["utilisation"] == 0 {
		return fmt.Errorf("round trip %v, %d samples, %v", r.rtt, len(r.Series.AtNs), r.Values)
	}
	for _, f := range r.Flows {
		if f.Bps == 0 {
			return fmt.Errorf("nothing got from host %d to host %d", f.Src, f.Dst)
		}
	}
	if r.decreases == 0 { // the links of the senders are faster than the one that is measured
		return errors.New("no sender has decreased its rate")
	}
	return nil
}

// reality runs the scenario on real hosts.
func reality(t *testing.T, s *scenario.Scenario, by simRealSender) *realRun {
	t.Helper()
	spec, err := Spec(s)
	if err != nil {
		t.Fatal(err)
	}
	// A node file of all hosts, so that HELLO measures the idle network (S1.2).
	nodes := filepath.Join(t.TempDir(), "nodes.yaml")
	text := "nodes:\n"
	for i := range spec.Hosts {
		text += fmt.Sprintf("  - {number: %d, addresses: [10.53.0.%d]}\n", i+1, i+1)
	}
	if err := os.WriteFile(nodes, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	hosts := engines.New(t, spec, "--rate", fmt.Sprint(uint64(s.Links.Host)), "--nodes", nodes, "--policy", "target="+target)
	load, err := by.open(s, hosts)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts {
		simRealMeasured(t, h, len(hosts)-1)
	}
	decreases := watchDecreases(t, hosts)
	r, rtt, err := Run(t.Context(), s, underlying(hosts), load)
	run := &realRun{r, rtt, decreases()}
	if err := errors.Join(err, load.Close()); err != nil {
		t.Fatal(err)
	}
	return run
}

// simulate runs it in the simulator.
func simulate(t *testing.T, s *scenario.Scenario, by simRealSender, rtt time.Duration) (*experiment.Result, error) {
	twin := *s
	twin.Transport.Recovery = by.recovery
	return Simulate(t.Context(), &twin, rtt, asAttached(by, uint64(s.Links.Host)))
}

// asAttached is four-case with the parameters that attach gives it, and the agent's
// rhythm: every 5 ms, with htb, whose classes it has to change, up to every 10 ms.
func asAttached(by simRealSender, linkBps uint64) scenario.Scheme {
	d := fourcase.DefaultParams(linkBps)
	x := scenario.Scheme{Name: by.scheme, Label: by.scheme}
	add := func(name, value string) { x.Params = append(x.Params, scenario.Param{Name: name, Value: value}) }
	ns := func(name string, v uint64) { add(name, fmt.Sprintf("%dns", v)) }
	q10 := func(name string, v uint32) { add(name, fmt.Sprint(float64(v)/1024)) }
	add("target", target)
	ns("target-max", d.TargetMaxNs)
	ns("deadband", d.DeadbandNs)
	ns("interval", max(d.IntervalNs, uint64(by.every)))
	add("min-rate", fmt.Sprint(d.MinRateBps))
	q10("beta", d.BetaQ10)
	q10("max-cut", d.MaxCutQ10)
	q10("raise", d.RaiseQ10)
	q10("max-raise", d.MaxRaiseQ10)
	q10("loss-cut", d.LossCutQ10)
	add("raise-after", fmt.Sprint(d.RaiseAfter))
	return x
}

// simRealMeasured waits until HELLO has measured the ways to so many peers.
func simRealMeasured(t *testing.T, h *engines.Host, peers int) {
	t.Helper()
	table := h.Attachment(t)
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		rows, err := table.Rows()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range rows {
			if r.Regs.Caps&bpf.CapStamp != 0 && r.Regs.Policy.State&fourcase.StateBase != 0 {
				n++
			}
		}
		if n == peers {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%s: HELLO did not measure %d peers within five minutes", h.Name(), peers)
}
