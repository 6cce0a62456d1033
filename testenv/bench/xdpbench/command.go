// SPDX-License-Identifier: Apache-2.0

package xdpbench

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// Command prints the CPU time per packet of the data plane over that of an empty program
// measured in the same run.
func Command() *cobra.Command {
	rounds, earlier := 101, ""
	cmd := &cobra.Command{
		Use:   "xdp",
		Short: "Measure the CPU time per packet of the data plane over an empty program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rounds < 1 {
				return errors.New("--rounds must be at least 1")
			}
			if earlier != "" {
				return compare.Failure(showChanges(cmd.Context(), earlier))
			}
			return compare.Failure(show(cmd.Context(), rounds))
		},
	}
	f := cmd.Flags()
	f.IntVar(&rounds, "rounds", rounds, "times that each program is measured; the median counts")
	f.StringVar(&earlier, "against", "", "object of an earlier version (bench_bpfel.o): how much more a stamped packet costs")
	return cmd
}

// show prints all rows.
func show(ctx context.Context, rounds int) error {
	rows, err := Run(ctx, rounds)
	if err != nil {
		return err
	}
	report := compare.NewReport(os.Stdout)
	t := report.Table("PROGRAM\tPACKET\tNS OVER EMPTY\tTARGET\t\t")
	for _, r := range rows {
		verdict := compare.None
		if r.limit != nil {
			verdict = t.Judge(*r.limit, r.Ns, r.rounds)
		}
		t.Row("%s\t%s\t%.0f\t%s", r.Program, r.Packet, r.Ns, verdict)
	}
	t.End()
	return report.Err()
}

// mostMore is how much more a stamped packet may cost than before, in nanoseconds.
var mostMore = compare.AtMost(6, "%.0f")

// comparedRounds is how often both versions are compared; the median counts.
const comparedRounds = 7

// showChanges prints the cost of stamped packets next to that of an earlier version.
func showChanges(ctx context.Context, file string) error {
	changes, err := against(ctx, file, comparedRounds)
	if err != nil {
		return err
	}
	report := compare.NewReport(os.Stdout)
	t := report.Table("PROGRAM\tPACKET\tBEFORE\tNOW\tMORE\tROUNDS\tTARGET\t\t")
	for _, c := range changes {
		t.Row("%s\t%s\t%.0f\t%.0f\t%.0f\t%s\t%s", c.now.Program, c.now.Packet, c.before.Ns, c.now.Ns, c.more.Median(),
			c.more.Span("%.0f"), t.Median(mostMore, c.more))
	}
	t.End()
	return report.Err()
}
