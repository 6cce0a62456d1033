// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"fmt"
	"io"
	"math"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
)

// of returns the median of a figure over the rounds at a load, NaN if there is none.
func (o *rounds) of(load int, figure func(*result) float64) float64 {
	var v []float64
	for _, r := range o.runs[load] {
		v = append(v, figure(r))
	}
	if len(v) == 0 {
		return math.NaN()
	}
	return status.Median(v)
}

// goodput is in Mbit/s of payload that the consumer at the target was told of.
func (o *rounds) goodput() float64 {
	return o.of(0, func(r *result) float64 { return float64(r.arrived*r.size) * 8 / r.over.Seconds() / 1e6 })
}

// perDelivered is packets with data sent for each that is delivered.
func (o *rounds) perDelivered() float64 {
	return o.of(0, func(r *result) float64 { return float64(r.packets) / float64(r.packets-r.again) })
}

// wire is packets of both directions for each KiB of payload.
func (o *rounds) wire() float64 {
	return o.of(0, func(r *result) float64 { return float64(r.wire) / float64(len(r.ends[1])*r.size>>10) })
}

// cpu is the CPU time of the process in us for each KiB of payload.
func (o *rounds) cpu() float64 {
	return o.of(0, func(r *result) float64 { return float64(r.cpu) / 1e3 / float64(len(r.ends[1])*r.size>>10) })
}

// time is a quantile of the completion times in us, at the source (0) or at the target (1).
func (o *rounds) time(load, side int, q float64) float64 {
	return o.of(load, func(r *result) float64 { return quantile(r.ends[side], q) })
}

func (o *rounds) unfinished() (n int) {
	for _, list := range o.runs {
		for _, r := range list {
			n += r.unfinished
		}
	}
	return n
}

// disorderGoals are those of out-of-order mode; goals returns what is missed.
func disorderGoals(rows []disorderRow) (misses []string) {
	base := math.NaN()
	for i := range rows {
		r := &rows[i]
		o, sack, filled := &r.of[disorderInOOO], &r.of[disorderInSACK], &r.of[disorderInMTU]
		miss := func(format string, args ...any) {
			misses = append(misses, fmt.Sprintf("loss %g %%, reordering %g %%: ", r.loss, r.reorder)+fmt.Sprintf(format, args...))
		}
		for _, k := range []int{disorderInOOO, disorderInSACK, disorderInMTU} {
			if why := r.of[k].failed; why != "" {
				miss("%s", why)
			}
		}
		if r.loss == 0 && r.reorder == 0 {
			base = o.goodput()
		}
		if want := 0.95 * (1 - r.loss/100); r.loss == 1 && r.reorder == 50 && o.goodput() < want*base {
			miss("%.2f of the goodput without loss, want %.2f", o.goodput()/base, want)
		}
		if o.goodput() < sack.goodput() {
			miss("goodput %.0f Mbit/s, RC with SACK has %.0f", o.goodput(), sack.goodput())
		}
		if filled.goodput() < sack.goodput() {
			miss("goodput %.0f Mbit/s with packets of the MTU, RC with SACK has %.0f", filled.goodput(), sack.goodput())
		}
		if r.loss == 5 && o.perDelivered() > 1.1 {
			miss("%.3f packets sent per packet delivered, want 1.1", o.perDelivered())
		}
		for k, load := range disorderLoads {
			if p99, other := o.time(k, 1, .99), sack.time(k, 1, .99); r.reorder > 0 && p99 > other/2 {
				miss("p99 %.0f us at %s, RC with SACK has %.0f%s", p99, loadName(load), other, r.reason(k, other/2))
			}
		}
	}
	return misses
}

// reason says why a 99th percentile in us is out of reach at a load, or nothing.
func (r *disorderRow) reason(load int, wanted float64) string {
	if least := r.least[load]; least > wanted {
		return fmt.Sprintf("; three trips take at least %.0f", least)
	}
	return ""
}

func loadName(load float64) string {
	if load == 0 {
		return "full load"
	}
	return fmt.Sprintf("%g %% load", 100*load)
}

// disorderColumn is one value of each contender.
type disorderColumn struct {
	name, format string
	value        func(o *rounds) float64
}

func disorderReport(w io.Writer, c disorderConfig, rows []disorderRow, misses []string) {
	fmt.Fprintf(w, "Two hosts on one machine, %g Mbit/s, messages of %d bytes, MTU 1500, PMTU 1024. Runs of %s, median of %d.\n", c.rate, c.size, c.each, c.rounds)
	if !c.direct {
		fmt.Fprintf(w, "A box between them loses packets, and delays some by up to %s.\n", c.delay)
	}
	fmt.Fprintf(w, "Full load: %d messages outstanding. Times in us, until the consumer at the target knows, or the source.\n", disorderOutstanding)
	fmt.Fprintf(w, "Packets: of both directions and all kinds, for each KiB of payload.\n")
	fmt.Fprintf(w, "CPU: us of the machine for each KiB of payload, with the box. Columns: ooo, RC with SACK, RC go-back-N, and ooo with packets of 1392 bytes.\n")
	columns := []disorderColumn{
		{"goodput Mbit/s", "%7.0f", (*rounds).goodput},
		{"sent per delivered", "%7.3f", (*rounds).perDelivered},
		{"packets", "%7.2f", (*rounds).wire},
		{"CPU", "%7.1f", (*rounds).cpu},
	}
	for k, load := range disorderLoads {
		if c.fullSpeed && load > 0 {
			break
		}
		for _, what := range []struct {
			name string
			side int
			q    float64
		}{{"p50", 1, .5}, {"p99", 1, .99}, {"source p99", 0, .99}} {
			columns = append(columns, disorderColumn{loadName(load) + ": " + what.name, "%7.0f", func(o *rounds) float64 { return o.time(k, what.side, what.q) }})
		}
	}
	const inOneGrid = 5
	for len(columns) > 0 {
		n := min(inOneGrid, len(columns))
		disorderGrid(w, rows, columns[:n])
		columns = columns[n:]
	}
	fmt.Fprintln(w)
	for i := range rows {
		for k := range disorderContend {
			o := &rows[i].of[k]
			if o.failed != "" {
				fmt.Fprintf(w, "loss %g %%, reordering %g %%: ended: %s\n", rows[i].loss, rows[i].reorder, o.failed)
			}
			if n := o.unfinished(); n > 0 {
				fmt.Fprintf(w, "loss %g %%, reordering %g %%: %s: %d messages had not ended %s after the run\n", rows[i].loss, rows[i].reorder, disorderContend[k].name, n, disorderPatience)
			}
		}
	}
	for _, m := range misses {
		fmt.Fprintf(w, "missed: %s\n", m)
	}
}

// disorderGrid prints a table with a line for each cell.
func disorderGrid(w io.Writer, rows []disorderRow, columns []disorderColumn) {
	fmt.Fprintf(w, "\n%5s %5s", "loss", "reord")
	for _, c := range columns {
		fmt.Fprintf(w, " | %-*s", 8*disorderContenders-1, c.name)
	}
	fmt.Fprintln(w)
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(w, "%4g%% %4g%%", r.loss, r.reorder)
		for _, c := range columns {
			fmt.Fprint(w, " |")
			for k := range r.of {
				fmt.Fprintf(w, " "+c.format, c.value(&r.of[k]))
			}
		}
		fmt.Fprintln(w)
	}
}
