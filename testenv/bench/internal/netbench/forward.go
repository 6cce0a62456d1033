// SPDX-License-Identifier: Apache-2.0

package netbench

// `bench forwarder` compares traffic between two attached hosts through a router that is
// attached with the same through one that is not: what the router has no part in must not change.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

const (
	forwardBottleneck = 200e6 // bit/s, between the router and the second host
	attachRate        = "1G"
)

// forwardTarget is the share of goodput and decisions that must be left.
var forwardTarget = compare.AtLeast(0.97, "%.2f")

// ForwardCommand is the subcommand of bench.
func ForwardCommand() *cobra.Command {
	var bin string
	var rounds, each int
	cmd := &cobra.Command{
		Use:   "forwarder",
		Short: "Compare traffic through an attached router with traffic through one that is not attached",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return compare.Failure(forwardRun(cmd.Context(), bin, rounds, each))
		},
	}
	f := cmd.Flags()
	f.StringVar(&bin, "bin", "bin/softroce-xdp", "the product's binary")
	f.IntVar(&rounds, "rounds", 5, "times that each is measured; the median of the rounds counts")
	f.IntVar(&each, "seconds", 4, "length of a measurement")
	return cmd
}

// forwardFigures are those of a flow. decisions are in a second.
type forwardFigures struct{ goodput, decisions, retransmits, naks float64 }

func forwardRun(ctx context.Context, bin string, rounds, each int) (err error) {
	if rounds < 1 || each < 1 {
		return errors.New("--rounds and --seconds must be at least 1")
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	top, err := topo.New(topo.Spec{StaticNeighbours: true, Hosts: []topo.HostSpec{
		{Name: "e"}, {Name: "r"}, {Name: "f", Bottleneck: &topo.Bottleneck{RateBPS: forwardBottleneck, LimitTime: 20 * time.Millisecond}}}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, top.Close()) }()
	if err := topo.RouteVia(top.Host(2), top.Host(1), top.Host(3)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "forwardbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	hosts, detach, err := engines.Attach(top, bin, dir, "--rate", attachRate)
	defer func() { err = errors.Join(err, detach()) }()
	if err != nil {
		return err
	}
	from, to, err := ends(top)
	if err != nil {
		return err
	}
	defer from.Close()
	defer to.Close()
	att, err := loader.Open(topo.IfName, hosts[0].LoaderOptions())
	if err != nil {
		return err
	}
	defer att.Close()

	m := measurement{from: from, to: top.Host(3), att: att, each: time.Duration(each) * time.Second}
	// The first flow finds the rate.
	if _, err := m.flow(ctx); err != nil {
		return err
	}
	var candidates []compare.Candidate[forwardFigures]
	for _, what := range []string{"detach", "attach"} {
		candidates = append(candidates, compare.Candidate[forwardFigures]{Name: what + "ed router", Measure: func(ctx context.Context) (f forwardFigures, err error) {
			if err := m.router(hosts[1], what); err != nil {
				return f, err
			}
			return m.flow(ctx)
		}})
	}
	runs, err := compare.Turns(ctx, rounds, candidates...)
	if err != nil {
		return err
	}
	r := compare.NewReport(os.Stdout)
	forwardReport(r, runs[0], runs[1])
	return r.Err()
}

func ends(top *topo.Topology) (from, to *load.Endpoint, err error) {
	if from, err = load.Open(load.Config{Local: top.Host(1).IPv4(), Do: top.Host(1).Do}); err != nil {
		return nil, nil, err
	}
	if to, err = load.Open(load.Config{Local: top.Host(3).IPv4(), Do: top.Host(3).Do}); err != nil {
		return nil, nil, errors.Join(err, from.Close())
	}
	return from, to, nil
}

// measurement is what a round needs.
type measurement struct {
	from *load.Endpoint
	to   *topo.Host
	att  *loader.Attachment
	each time.Duration

	detached bool // the router
}

// router attaches or detaches the router, unless it is so already.
func (m *measurement) router(r *engines.Host, what string) error {
	if m.detached == (what == "detach") {
		return nil
	}
	args := []string{what, topo.IfName}
	if what == "attach" {
		args = append(args, "--rate", attachRate)
	}
	if out, err := r.Product(args...); err != nil {
		return fmt.Errorf("%s of the router: %w\n%s", what, err, out)
	}
	m.detached = what == "detach"
	return nil
}

// flow sends for the time of a measurement.
func (m *measurement) flow(ctx context.Context) (f forwardFigures, err error) {
	decisions := func() (uint32, error) {
		r, _, err := m.att.Lookup(m.to.IPv4())
		return r.Regs.Policy.Decisions, err
	}
	before, err := decisions()
	if err != nil {
		return f, err
	}
	r, err := m.from.Send(ctx, load.Flow{To: m.to.IPv4(), Duration: m.each, GiveUp: time.Minute})
	if err != nil {
		return f, err
	}
	after, err := decisions()
	return forwardFigures{
		goodput: r.GoodputBPS / 1e6, decisions: float64(after-before) / r.Elapsed.Seconds(),
		retransmits: float64(r.Retransmits), naks: float64(r.NAKs),
	}, err
}

// forwardReport prints the medians, and the ratios of medians.
func forwardReport(r *compare.Report, plain, attached compare.Runs[forwardFigures]) {
	figures := []func(forwardFigures) float64{
		func(f forwardFigures) float64 { return f.goodput },
		func(f forwardFigures) float64 { return f.decisions },
		func(f forwardFigures) float64 { return f.naks },
		func(f forwardFigures) float64 { return f.retransmits },
	}
	t := r.Table("ROUTER\tMBIT/S\tDECISIONS/S\tNAKS\tRETRANSMITS\t")
	for _, x := range []struct {
		name string
		runs compare.Runs[forwardFigures]
	}{{"not attached", plain}, {"attached", attached}} {
		var v [4]float64
		for i, f := range figures {
			v[i] = x.runs.Series(f).Median()
		}
		t.Row("%s\t%.1f\t%.1f\t%.0f\t%.0f", x.name, v[0], v[1], v[2], v[3])
	}
	t.End()
	t = r.Titled("Attached over not attached", "FIGURE\tRATIO\tROUNDS\tTARGET\t\t")
	for i, name := range []string{"goodput", "decisions"} {
		a, b := attached.Series(figures[i]), plain.Series(figures[i])
		ratio, rounds := a.Median()/b.Median(), a.Over(b)
		t.Row("%s\t%.3f\t%s\t%s", name, ratio, rounds.Span("%.3f"), t.Judge(forwardTarget, ratio, rounds))
	}
	t.End()
}
