// SPDX-License-Identifier: Apache-2.0

// Package orderbench compares out-of-order mode (S3, rocev2/ooo) with RC of the same engine
// (rocev2/qp), with and without SACK, on the virtual wire. Window, pacing and RTO are the same for
// all. Time is virtual, so the figures do not depend on the machine.
package orderbench

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
)

var (
	losses     = []float64{0, 0.001, 0.01, 0.05}
	reordering = []float64{0, 0.1, 0.5}
)

// row is one cell with the figures of the three transports.
type row struct {
	cell
	ooo, sack, gbn figures
}

// Command returns `bench order`.
func Command() *cobra.Command {
	messages, seed := 2000, uint64(1)
	cmd := &cobra.Command{
		Use:   "order",
		Short: "Out-of-order mode compared with RC on a virtual wire, with loss and reordering",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if messages < 200 || messages > 1_000_000 {
				return fmt.Errorf("--messages %d: choose 200 to 1000000", messages)
			}
			rows, err := table(seed, messages)
			if err != nil {
				return status.Failure(err)
			}
			misses := goals(rows)
			return status.Verdict(len(misses) == 0, report(cmd.OutOrStdout(), rows, misses, messages))
		},
	}
	cmd.Flags().IntVar(&messages, "messages", messages, "messages of each run")
	cmd.Flags().Uint64Var(&seed, "seed", seed, "of loss and reordering")
	return cmd
}

// table measures all cells.
func table(seed uint64, messages int) ([]row, error) {
	var rows []row
	for _, loss := range losses {
		for _, reorder := range reordering {
			r := row{cell: cell{loss, reorder}}
			for _, m := range []struct {
				name string
				make maker
				to   *figures
			}{{"out of order", newOutOfOrder, &r.ooo}, {"RC with SACK", newReliable(true), &r.sack}, {"RC go-back-N", newReliable(false), &r.gbn}} {
				var err error
				if *m.to, err = measure(seed, r.cell, m.make, messages); err != nil {
					return nil, fmt.Errorf("%s, loss %g, reordering %g: %w", m.name, loss, reorder, err)
				}
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// goals returns what is missed of issue 14.
func goals(rows []row) (misses []string) {
	base := rows[0].ooo.goodput
	for _, r := range rows {
		miss := func(format string, args ...any) {
			misses = append(misses, fmt.Sprintf("loss %g %%, reordering %g %%: ", 100*r.loss, 100*r.reorder)+fmt.Sprintf(format, args...))
		}
		if r.loss == 0.01 && r.reorder == 0.5 && r.ooo.goodput < 0.95*(1-r.loss)*base {
			miss("%.2f of the goodput without loss, want %.2f", r.ooo.goodput/base, 0.95*(1-r.loss))
		}
		if r.ooo.goodput < r.sack.goodput {
			miss("goodput %.0f Mbit/s, RC with SACK has %.0f", r.ooo.goodput/1e6, r.sack.goodput/1e6)
		}
		if r.reorder > 0 && r.ooo.full.p99 > r.sack.full.p99/2 {
			miss("p99 %.0f us at full load, RC with SACK has %.0f", r.ooo.full.p99, r.sack.full.p99)
		}
		if r.reorder > 0 && r.ooo.load.p99 > r.sack.load.p99/2 {
			miss("p99 %.0f us at %.0f %% load, RC with SACK has %.0f", r.ooo.load.p99, 100*load, r.sack.load.p99)
		}
		if r.loss == 0.05 && r.ooo.ratio > 1.1 {
			miss("%.3f packets sent per packet delivered, want 1.1", r.ooo.ratio)
		}
	}
	return misses
}

// report prints the table and what is missed.
func report(w io.Writer, rows []row, misses []string, messages int) error {
	fmt.Fprintf(w, "%d messages of %d bytes, PMTU 1024, 10 Gbit/s, base RTT %d us, window %d packets.\n", messages, messageLen, 2*delay/1000, window)
	fmt.Fprintf(w, "Reordered packets are delayed by up to %d us. Full load: %d messages outstanding. Times in us. Columns: ooo, SACK, go-back-N.\n",
		reorderBy/1000, outstanding)
	columns := []struct {
		name, format string
		value        func(f *figures) float64
	}{
		{"goodput Mbit/s", "%7.0f", func(f *figures) float64 { return f.goodput / 1e6 }},
		{"sent per delivered", "%7.3f", func(f *figures) float64 { return f.ratio }},
		{"full load: p50", "%7.0f", func(f *figures) float64 { return f.full.p50 }},
		{"full load: p99", "%7.0f", func(f *figures) float64 { return f.full.p99 }},
		{fmt.Sprintf("%.0f %% load: p50", 100*load), "%7.0f", func(f *figures) float64 { return f.load.p50 }},
		{fmt.Sprintf("%.0f %% load: p99", 100*load), "%7.0f", func(f *figures) float64 { return f.load.p99 }},
	}
	fmt.Fprintf(w, "\n%5s %5s", "loss", "reord")
	for _, c := range columns {
		fmt.Fprintf(w, " | %-23s", c.name)
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprintf(w, "%4g%% %4g%%", 100*r.loss, 100*r.reorder)
		for _, c := range columns {
			fmt.Fprint(w, " |")
			for _, f := range []*figures{&r.ooo, &r.sack, &r.gbn} {
				fmt.Fprintf(w, " "+c.format, c.value(f))
			}
		}
		fmt.Fprintln(w)
	}
	for _, m := range misses {
		fmt.Fprintf(w, "missed: %s\n", m)
	}
	return nil
}
