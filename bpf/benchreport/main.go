// SPDX-License-Identifier: Apache-2.0

// Benchreport prints the CPU time per packet of the data plane over that of an empty program
// measured in the same run. It exits with 1 if a target is missed, and with 2 after an error.
package main

import (
	"flag"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/softroce/softroce-xdp/bpf/bench"
)

func main() {
	rounds := flag.Int("rounds", 101, "times that each program is measured; the median counts")
	flag.Parse()
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
