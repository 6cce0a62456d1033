// SPDX-License-Identifier: Apache-2.0

// Benchreport prints the CPU time per packet of the data plane over that of an empty program
// measured in the same run. It exits with 1 if a target is missed, and with 2 after an error.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/softroce/softroce-xdp/bpf/bench"
)

func main() {
	rounds := flag.Int("rounds", 101, "times that each program is measured; the median counts")
	against := flag.String("against", "", "bench object of an earlier version: how much more a stamped packet costs (bpf/bench/bench_bpfel.o)")
	flag.Parse()
	if *against != "" {
		os.Exit(compare(*against))
	}
	rows, err := bench.Run(*rounds)
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchreport:", err)
		os.Exit(2)
	}
	code := 0
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROGRAM\tPACKET\tNS OVER EMPTY\tTARGET\t")
	for _, r := range rows {
		target, verdict := "-", ""
		if r.Target != 0 {
			target, verdict = fmt.Sprintf("<= %.0f", r.Target), "ok"
		}
		if !r.Ok() {
			verdict, code = "MISSED", 1
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%s\t%s\n", r.Program, r.Packet, r.Ns, target, verdict)
	}
	w.Flush()
	os.Exit(code)
}

// A stamped packet may cost so much more than before, in nanoseconds.
const mostMore = 6

// comparedRounds is how often both versions are compared; the median counts.
const comparedRounds = 7

// compare prints the cost of stamped packets next to that of an earlier version.
func compare(file string) (code int) {
	changes, err := bench.Against(file, comparedRounds)
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchreport:", err)
		return 2
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROGRAM\tPACKET\tBEFORE\tNOW\tMORE\tROUNDS\tTARGET\t")
	for i := range changes {
		c := &changes[i]
		verdict := "ok"
		if c.Change() > mostMore {
			verdict, code = "MISSED", 1
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f..%.0f\t<= %d %s\t\n", c.Program, c.Packet, c.Before, c.Ns, c.Change(),
			slices.Min(c.Changes), slices.Max(c.Changes), mostMore, verdict)
	}
	w.Flush()
	return code
}
