// SPDX-License-Identifier: Apache-2.0

package simreal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/testenv/engines"
	"github.com/softroce/softroce-xdp/testenv/topo"
)

func TestMain(m *testing.M) { engines.Main(m) }

// Two cores play the machines here, and run late by as much as the default target
// of 500 us; the simulator gets the same target.
const target = "750us"

// TestSimulationAndReality runs each scenario of testdata on real interfaces and in
// the simulator. SOFTROCE_REPORT names a folder for the table, which is of three runs.
//
// The limits are wide: they catch a product, or a simulator, that does something
// else than the other, not one that is slightly off. One of three runs has to keep
// them, because others may have used the machine.
func TestSimulationAndReality(t *testing.T) {
	topo.RequireRoot(t)
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	dir := os.Getenv("SOFTROCE_REPORT")
	var pairs []Pair
	for _, file := range files {
		s, err := scenario.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range senders {
			t.Run(s.Name+"/"+by.name, func(t *testing.T) {
				p := Pair{Scenario: s, By: by.name}
				good := false
				for i := 0; i < 3 && (!good || dir != ""); i++ {
					t.Run(fmt.Sprint(i+1), func(t *testing.T) { p.run(t, by) })
					if t.Failed() {
						return
					}
					missed := append(p.missed(p.Real[i]), p.missed(p.Simulated[i])...)
					if len(missed) > 0 {
						t.Logf("run %d missed: %s", i+1, strings.Join(missed, "; "))
					}
					good = good || len(missed) == 0
				}
				if !good {
					t.Error("missed in all runs")
				}
				pairs = append(pairs, p)
			})
		}
	}
	var b bytes.Buffer
	if err := WriteText(&b, fmt.Sprintf("RoCEv2 between network namespaces with the product attached (target %s), and the same in the simulator", target), pairs); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &b)
	if dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "simreal.txt"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// sender is a way to send on real hosts, and how the simulator does it.
type sender struct {
	name     string
	open     func(*scenario.Scenario, []*engines.Host) (Traffic, error)
	scheme   string
	recovery string
	every    time.Duration // between the agent's decisions
}

var senders = []sender{
	{"host", func(s *scenario.Scenario, hosts []*engines.Host) (Traffic, error) {
		return Sockets(s, underlying(hosts))
	}, "fourcase-rate", "go-back-n", 10 * time.Millisecond},
	{"engine", Engines, "fourcase", "selective", 5 * time.Millisecond},
}

func underlying(hosts []*engines.Host) (all []*topo.Host) {
	for _, h := range hosts {
		all = append(all, h.Host)
	}
	return all
}

// missed says what of a run is outside of the limits.
func (p *Pair) missed(r *experiment.Result) (missed []string) {
	if u := r.Values["utilisation"]; u > 1.02 {
		missed = append(missed, fmt.Sprintf("%s: utilisation is %v, which cannot be", r.Scheme, u))
	}
	for _, c := range p.Scenario.Criteria {
		if v := r.Values[c.Metric]; !c.Holds(v) {
			missed = append(missed, fmt.Sprintf("%s: %s is %v, should be %s", r.Scheme, c.Metric, v, c.Text))
		}
	}
	return missed
}

// run runs the scenario both ways.
func (p *Pair) run(t *testing.T, by sender) {
	t.Helper()
	s := p.Scenario
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
		measured(t, h, len(hosts)-1)
	}
	real, rtt, err := Run(t.Context(), s, underlying(hosts), load)
	if err := errors.Join(err, load.Close()); err != nil {
		t.Fatal(err)
	}
	twin := *s
	twin.Transport.Recovery = by.recovery
	simulated, err := Simulate(t.Context(), &twin, rtt, asAttached(by, uint64(s.Links.Host)))
	if err != nil {
		t.Fatal(err)
	}
	p.Real, p.Simulated, p.RTT = append(p.Real, real), append(p.Simulated, simulated), append(p.RTT, rtt)
}

// asAttached is four-case with the parameters that attach gives it, and the agent's
// rhythm: every 5 ms, with htb, whose classes it has to change, up to every 10 ms.
func asAttached(by sender, linkBps uint64) scenario.Scheme {
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

// measured waits until HELLO has measured the ways to so many peers.
func measured(t *testing.T, h *engines.Host, peers int) {
	t.Helper()
	table := h.Attachment(t)
	for range 300 {
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
	t.Fatalf("%s: HELLO did not measure %d peers within thirty seconds", h.Name(), peers)
}
