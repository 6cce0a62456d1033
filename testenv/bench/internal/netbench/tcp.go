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
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// tcpTarget is the share of the empty program's throughput that must be left.
var tcpTarget = compare.AtLeast(0.97, "%.2f")

// TCPCommand is the subcommand of bench.
func TCPCommand() *cobra.Command {
	var bin string
	var rounds, each int
	cmd := &cobra.Command{
		Use:   "tcp",
		Short: "Compare TCP through an attached interface with TCP through an empty program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return compare.Failure(tcpRun(cmd.Context(), bin, rounds, each))
		},
	}
	f := cmd.Flags()
	f.StringVar(&bin, "bin", "bin/softroce-xdp", "the product's binary")
	f.IntVar(&rounds, "rounds", 9, "times that each candidate is measured; the median of the rounds counts")
	f.IntVar(&each, "seconds", 2, "length of a measurement")
	return cmd
}

func tcpRun(ctx context.Context, bin string, rounds, each int) (err error) {
	if rounds < 1 || each < 1 {
		return errors.New("--rounds and --seconds must be at least 1")
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if _, err := exec.LookPath("iperf3"); err != nil {
		return fmt.Errorf("%w: install iperf3", err)
	}
	top, err := topo.New(topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, top.Close()) }()
	dir, err := os.MkdirTemp("", "tcpbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	var candidates []compare.Candidate[float64]
	for _, c := range []struct {
		name string
		put  func(*topo.Topology) (remove func() error, err error) // puts the program on both hosts' eth0
	}{
		{"empty XDP program", empty},
		{"empty, and pfifo_fast as root qdisc", queued},
		{"attached, pacer none", tcpProduct(bin, dir, "none", false)},
		{"attached, pacer htb, no RoCE destination", tcpProduct(bin, dir, "htb", false)},
		{"attached, pacer htb, one destination paced", tcpProduct(bin, dir, "htb", true)},
	} {
		candidates = append(candidates, compare.Candidate[float64]{Name: c.name, Measure: func(ctx context.Context) (bps float64, err error) {
			remove, err := c.put(top)
			if err != nil {
				return 0, err
			}
			defer func() { err = errors.Join(err, remove()) }()
			return iperf(ctx, top, each)
		}})
	}
	runs, err := compare.Turns(ctx, rounds, candidates...)
	if err != nil {
		return err
	}
	r := compare.NewReport(os.Stdout)
	tcpReport(r, candidates, runs)
	return r.Err()
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

// tcpReference is the index of the candidate that the others are compared with, and tcpOurs that of the first one with
// a target.
const (
	tcpReference = 0
	tcpOurs      = 2
)

// tcpReport prints the table. Ratios are taken round by round: a machine that is slower for a while is so for all of
// a round.
func tcpReport(r *compare.Report, candidates []compare.Candidate[float64], runs []compare.Runs[float64]) {
	t := r.Table("TCP THROUGH\tMEDIAN GBIT/S\tMIN TO MAX\tMEDIAN RATIO\tAROUND IT\tTARGET\t\t")
	gbits := func(bps float64) float64 { return bps / 1e9 }
	for i, c := range candidates {
		rates, verdict := runs[i].Series(gbits), compare.None
		ratios := rates.Over(runs[tcpReference].Series(gbits))
		if i >= tcpOurs {
			verdict = t.Median(tcpTarget, ratios)
		}
		low, high := ratios.Around()
		t.Row("%s\t%.2f\t%s\t%.3f\t%.2f to %.2f\t%s", c.Name, rates.Median(), rates.Span("%.2f"), ratios.Median(), low, high, verdict)
	}
	t.End()
}
