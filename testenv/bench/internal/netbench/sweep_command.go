// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// SweepCommand is the subcommand of bench.
func SweepCommand() *cobra.Command {
	o := sweepOptions{}
	var match string
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Run perf over operations, sizes, MTUs, queue pairs and depths",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return compare.Failure(sweepRun(cmd.Context(), o, match)) },
	}
	f := cmd.Flags()
	f.StringVar(&o.bin, "bin", "bin/softroce-xdp", "the product's binary")
	f.DurationVar(&o.duration, "time", time.Second, "length of a measurement")
	f.DurationVar(&o.bound, "bound", 90*time.Second, "after which a run is taken for one that does not end")
	f.StringVar(&match, "match", "", "only cases whose line has this in it")
	return cmd
}

// sweepRun prints a line when a case has ended: the whole takes minutes.
func sweepRun(ctx context.Context, o sweepOptions, match string) (err error) {
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return err
	}
	var cases []sweepCase
	for _, c := range pairwise() {
		if strings.Contains(c.String(), match) {
			cases = append(cases, c)
		}
	}
	if len(cases) == 0 {
		return fmt.Errorf("--match %q: no case has that in its line", match)
	}
	report := compare.NewReport(os.Stdout)
	report.Print("%-6s  %-12s %8s %5s %5s %5s %6s %7s %8s %9s %8s %7s %8s\n",
		"", "OPERATION", "SIZE", "MTU", "PMTU", "QPS", "DEPTH", "TOOK", "GBIT/S", "MESSAGES", "AGAIN", "SENT", "ARRIVED")
	var missed int
	err = sweep(ctx, o, cases, func(r sweepResult) {
		c, why := r.sweepCase, ""
		if err := r.miss(); err != nil {
			missed++
			why = "  " + err.Error()
		}
		var line compare.Goals
		line.Expect(why == "", "%-12s %8d %5d %5d %5d %6d %6.1fs %8.2f %9d %8d %7.3f %8.3f%s", c.service+" "+c.op,
			c.size, c.mtu, c.pmtu, c.qps, c.depth,
			r.took.Seconds(), r.gbps, r.messages, r.again, r.sent(), r.arrived, why)
		report.Goals(line)
	})
	report.Print("%d of %d runs missed: each must end within %v and send at most %.2f packets for one delivered\n", missed, len(cases), o.bound, mostSent)
	return errors.Join(err, report.Err())
}
