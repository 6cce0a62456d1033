// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/netbench"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
)

// sweepCommand runs `softroce-xdp perf` over operations, services, sizes, MTUs, PMTUs, queue pairs and depths
// (package netbench), and prints a table.
func sweepCommand() *cobra.Command {
	o := netbench.Options{}
	var match string
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Run perf over operations, sizes, MTUs, queue pairs and depths",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			missed, err := runSweep(cmd.Context(), o, match)
			return status.Verdict(missed == 0, err)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Bin, "bin", "bin/softroce-xdp", "the product's binary")
	f.DurationVar(&o.Duration, "time", time.Second, "length of a measurement")
	f.DurationVar(&o.Bound, "bound", 90*time.Second, "after which a run is taken for one that does not end")
	f.StringVar(&match, "match", "", "only cases whose line has this in it")
	return cmd
}

func runSweep(ctx context.Context, o netbench.Options, match string) (missed int, err error) {
	if o.Bin, err = filepath.Abs(o.Bin); err != nil {
		return 0, err
	}
	var cases []netbench.Case
	for _, c := range netbench.Pairwise() {
		if strings.Contains(c.String(), match) {
			cases = append(cases, c)
		}
	}
	if len(cases) == 0 {
		return 0, fmt.Errorf("--match %q: no case has that in its line", match)
	}
	fmt.Printf("%-12s %8s %5s %5s %5s %6s %7s %8s %9s %8s %7s %8s\n",
		"OPERATION", "SIZE", "MTU", "PMTU", "QPS", "DEPTH", "TOOK", "GBIT/S", "MESSAGES", "AGAIN", "SENT", "ARRIVED")
	err = netbench.RunSweep(ctx, o, cases, func(r netbench.Result) {
		c, verdict := r.Case, ""
		if err := r.Miss(); err != nil {
			missed++
			verdict = "  MISSED: " + err.Error()
		}
		fmt.Printf("%-12s %8d %5d %5d %5d %6d %6.1fs %8.2f %9d %8d %7.3f %8.3f%s\n", c.Service+" "+c.Op, c.Size, c.MTU, c.PMTU, c.QPs, c.Depth,
			r.Took.Seconds(), r.Gbps, r.Messages, r.Again, r.Sent(), r.Arrived, verdict)
	})
	fmt.Printf("%d of %d runs missed: each must end within %v and send at most %.2f packets for one delivered\n", missed, len(cases), o.Bound, netbench.MostSent)
	return missed, err
}
