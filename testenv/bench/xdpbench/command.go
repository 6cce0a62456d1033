// SPDX-License-Identifier: Apache-2.0

package xdpbench

import (
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
)

// Command prints the CPU time per packet of the data plane over that of an empty program
// measured in the same run.
func Command() *cobra.Command {
	rounds, against := 101, ""
	cmd := &cobra.Command{
		Use:   "xdp",
		Short: "Measure the CPU time per packet of the data plane over an empty program",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if against != "" {
				return status.Verdict(compare(against))
			}
			return status.Verdict(report(rounds))
		},
	}
	f := cmd.Flags()
	f.IntVar(&rounds, "rounds", rounds, "times that each program is measured; the median counts")
	f.StringVar(&against, "against", "", "object of an earlier version (bench_bpfel.o): how much more a stamped packet costs")
	return cmd
}

// report prints all rows, and returns whether no target is missed.
func report(rounds int) (ok bool, err error) {
	rows, err := Run(rounds)
	if err != nil {
		return false, err
	}
	ok = true
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROGRAM\tPACKET\tNS OVER EMPTY\tTARGET\t")
	for _, r := range rows {
		target, verdict := "-", ""
		if r.Target != 0 {
			target, verdict = fmt.Sprintf("<= %.0f", r.Target), "ok"
		}
		if !r.Ok() {
			verdict, ok = "MISSED", false
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%s\t%s\n", r.Program, r.Packet, r.Ns, target, verdict)
	}
	return ok, w.Flush()
}

// A stamped packet may cost so much more than before, in nanoseconds.
const mostMore = 6

// comparedRounds is how often both versions are compared; the median counts.
const comparedRounds = 7

// compare prints the cost of stamped packets next to that of an earlier version.
func compare(file string) (ok bool, err error) {
	changes, err := Against(file, comparedRounds)
	if err != nil {
		return false, err
	}
	ok = true
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROGRAM\tPACKET\tBEFORE\tNOW\tMORE\tROUNDS\tTARGET\t")
	for i := range changes {
		c := &changes[i]
		verdict := "ok"
		if c.Change() > mostMore {
			verdict, ok = "MISSED", false
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f..%.0f\t<= %d %s\t\n", c.Program, c.Packet, c.Before, c.Ns, c.Change(),
			slices.Min(c.Changes), slices.Max(c.Changes), mostMore, verdict)
	}
	return ok, w.Flush()
}
