// SPDX-License-Identifier: Apache-2.0

package netbench

// `bench tcp` compares TCP through an attached interface with TCP through the same
// interface with an empty XDP program: iperf3 between two hosts in namespaces,
// the candidates taking turns.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// tcpTarget is the share of the empty program's throughput that must be left.
const tcpTarget = 0.97

// TCPCommand is the subcommand of bench.
func TCPCommand() *cobra.Command {
	var bin string
	var rounds, each int
	cmd := &cobra.Command{
		Use:   "tcp",
		Short: "Compare TCP through an attached interface with TCP through an empty program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return status.Verdict(tcpRun(cmd.Context(), bin, rounds, each))
		},
	}
	f := cmd.Flags()
	f.StringVar(&bin, "bin", "bin/softroce-xdp", "the product's binary")
	f.IntVar(&rounds, "rounds", 9, "times that each candidate is measured; the median of the rounds counts")
	f.IntVar(&each, "seconds", 2, "length of a measurement")
	return cmd
}

func tcpRun(ctx context.Context, bin string, rounds, each int) (ok bool, err error) {
	if rounds < 1 || each < 1 {
		return false, errors.New("--rounds and --seconds must be at least 1")
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return false, err
	}
	if _, err := exec.LookPath("iperf3"); err != nil {
		return false, fmt.Errorf("%w: install iperf3", err)
	}
	top, err := topo.New(topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, top.Close()) }()
	dir, err := os.MkdirTemp("", "tcpbench-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)

	all := []*candidate{
		{name: "empty XDP program", put: empty},
		{name: "empty, and pfifo_fast as root qdisc", put: queued},
		{name: "attached, pacer none", put: tcpProduct(bin, dir, "none", false), ours: true},
		{name: "attached, pacer htb, no RoCE destination", put: tcpProduct(bin, dir, "htb", false), ours: true},
		{name: "attached, pacer htb, one destination paced", put: tcpProduct(bin, dir, "htb", true), ours: true},
	}
	// Taking turns, and each first once in a while: what else the machine does
	// hits all of them alike.
	for i := range rounds {
		for j := range all {
			c := all[(i+j)%len(all)]
			bps, err := c.measure(ctx, top, each)
			if err != nil {
				return false, fmt.Errorf("%s: %w", c.name, err)
			}
			c.bps = append(c.bps, bps)
		}
	}
	return tcpReport(all), nil
}

// candidate is something to put on both hosts' eth0.
type candidate struct {
	name string
	put  func(*topo.Topology) (remove func() error, err error)
	ours bool
	bps  []float64
}

func (c *candidate) measure(ctx context.Context, top *topo.Topology, seconds int) (bps float64, err error) {
	remove, err := c.put(top)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	return iperf(ctx, top, seconds)
}

// iperf measures one TCP stream from host 1 to host 2, by what arrived.
func iperf(ctx context.Context, top *topo.Topology, seconds int) (float64, error) {
	server := top.Host(2).Command("iperf3", "--server", "--one-off")
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+10*time.Second)
	defer cancel()
	for { // until the server listens
		out, err := top.Host(1).CommandContext(ctx, "iperf3", "--client", top.Host(2).IPv4().String(), "--time", strconv.Itoa(seconds), "--json").Output()
		var result struct {
			Error string // the exit code does not tell
			End   struct {
				Received struct {
					BPS float64 `json:"bits_per_second"`
				} `json:"sum_received"`
			}
		}
		if err == nil {
			err = json.Unmarshal(out, &result)
		}
		if err == nil && result.Error != "" {
			err = errors.New(result.Error)
		}
		if bps := result.End.Received.BPS; err == nil && bps > 0 {
			return bps, nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("iperf3: %w\n%s", cmp.Or(err, ctx.Err()), out)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// tcpReport prints the table; the first candidate is what the others are compared
// with, round by round: a machine that is slower for a while is so for all of a
// round.
func tcpReport(all []*candidate) bool {
	ok := true
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TCP THROUGH\tMEDIAN GBIT/S\tMIN\tMAX\tMEDIAN RATIO\tQUARTILES\tTARGET\t")
	for _, c := range all {
		ratios := make([]float64, len(c.bps))
		for i := range c.bps {
			ratios[i] = c.bps[i] / all[0].bps[i]
		}
		slices.Sort(ratios)
		ratio, verdict := status.Median(ratios), "-\t"
		if c.ours {
			verdict = fmt.Sprintf(">= %.2f\tok", tcpTarget)
			if ratio < tcpTarget {
				verdict, ok = fmt.Sprintf(">= %.2f\tMISSED", tcpTarget), false
			}
		}
		n := len(ratios)
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.3f\t%.2f to %.2f\t%s\n", c.name, status.Median(c.bps)/1e9, slices.Min(c.bps)/1e9, slices.Max(c.bps)/1e9,
			ratio, ratios[n/4], ratios[n-1-n/4], verdict)
	}
	w.Flush()
	return ok
}
