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
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

const (
	// forwardTarget is the share of goodput and decisions that must be left.
	forwardTarget = 0.97

	forwardBottleneck = 200e6 // bit/s, between the router and the second host
	attachRate        = "1G"
)

// ForwardCommand is the subcommand of bench.
func ForwardCommand() *cobra.Command {
	var bin string
	var rounds, each int
	cmd := &cobra.Command{
		Use:   "forwarder",
		Short: "Compare traffic through an attached router with traffic through one that is not attached",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return status.Verdict(forwardRun(cmd.Context(), bin, rounds, each))
		},
	}
	f := cmd.Flags()
	f.StringVar(&bin, "bin", "bin/softroce-xdp", "the product's binary")
	f.IntVar(&rounds, "rounds", 5, "times that each is measured; the median of the rounds counts")
	f.IntVar(&each, "seconds", 4, "length of a measurement")
	return cmd
}

// forwardFigures are those of one router, one value for each round.
type forwardFigures struct {
	name                                  string
	goodput, decisions, retransmits, naks []float64
}

func forwardRun(ctx context.Context, bin string, rounds, each int) (ok bool, err error) {
	if rounds < 1 || each < 1 {
		return false, errors.New("--rounds and --seconds must be at least 1")
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return false, err
	}
	top, err := topo.New(topo.Spec{StaticNeighbours: true, Hosts: []topo.HostSpec{
		{Name: "e"}, {Name: "r"}, {Name: "f", Bottleneck: &topo.Bottleneck{RateBPS: forwardBottleneck, LimitTime: 20 * time.Millisecond}}}})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, top.Close()) }()
	if err := topo.RouteVia(top.Host(2), top.Host(1), top.Host(3)); err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "forwardbench-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	hosts, detach, err := engines.Attach(top, bin, dir, "--rate", attachRate)
	defer func() { err = errors.Join(err, detach()) }()
	if err != nil {
		return false, err
	}
	from, to, err := ends(top)
	if err != nil {
		return false, err
	}
	defer from.Close()
	defer to.Close()
	att, err := loader.Open(topo.IfName, hosts[0].LoaderOptions())
	if err != nil {
		return false, err
	}
	defer att.Close()

	plain, attached := &forwardFigures{name: "not attached"}, &forwardFigures{name: "attached"}
	m := measurement{from: from, to: top.Host(3), att: att, each: time.Duration(each) * time.Second}
	// The first flow finds the rate.
	if err := m.flow(ctx, &forwardFigures{}); err != nil {
		return false, err
	}
	for i := range rounds {
		for j := range 2 {
			f, what := attached, "attach"
			if (i+j)%2 == 0 {
				f, what = plain, "detach"
			}
			if err := m.router(hosts[1], what); err != nil {
				return false, err
			}
			if err := m.flow(ctx, f); err != nil {
				return false, fmt.Errorf("router %s: %w", f.name, err)
			}
		}
	}
	return forwardReport(plain, attached), nil
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

// flow sends for the time of a measurement, and adds its figures.
func (m *measurement) flow(ctx context.Context, f *forwardFigures) error {
	decisions := func() (uint32, error) {
		r, _, err := m.att.Lookup(m.to.IPv4())
		return r.Regs.Policy.Decisions, err
	}
	before, err := decisions()
	if err != nil {
		return err
	}
	r, err := m.from.Send(ctx, load.Flow{To: m.to.IPv4(), Duration: m.each, GiveUp: time.Minute})
	if err != nil {
		return err
	}
	after, err := decisions()
	if err != nil {
		return err
	}
	f.goodput = append(f.goodput, r.GoodputBPS)
	f.decisions = append(f.decisions, float64(after-before)/r.Elapsed.Seconds())
	f.retransmits = append(f.retransmits, float64(r.Retransmits))
	f.naks = append(f.naks, float64(r.NAKs))
	return nil
}

func forwardReport(plain, attached *forwardFigures) (ok bool) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROUTER\tMBIT/S\tDECISIONS/S\tNAKS\tRETRANSMITS\t")
	for _, f := range []*forwardFigures{plain, attached} {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.0f\t%.0f\t\n", f.name, status.Median(f.goodput)/1e6, status.Median(f.decisions), status.Median(f.naks), status.Median(f.retransmits))
	}
	goodput, decisions := status.Median(attached.goodput)/status.Median(plain.goodput), status.Median(attached.decisions)/status.Median(plain.decisions)
	verdict := "ok"
	if ok = goodput >= forwardTarget && decisions >= forwardTarget; !ok {
		verdict = "MISSED"
	}
	fmt.Fprintf(w, "attached over not attached\t%.3f\t%.3f\t\t\t>= %.2f %s\n", goodput, decisions, forwardTarget, verdict)
	w.Flush()
	return ok
}
