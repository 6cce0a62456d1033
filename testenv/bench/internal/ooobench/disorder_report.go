// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// figure is a value of a run at a load.
type figure struct {
	load  int
	value func(*result) float64
}

// goodput is in Mbit/s of payload that the consumer at the target was told of.
var goodput = figure{0, func(r *result) float64 { return float64(r.arrived*r.size) * 8 / r.over.Seconds() / 1e6 }}

// perDelivered is packets with data sent for each that is delivered.
var perDelivered = figure{0, func(r *result) float64 { return float64(r.packets) / float64(r.packets-r.again) }}

// wire is packets of both directions for each KiB of payload.
var wire = figure{0, func(r *result) float64 { return float64(r.wire) / float64(len(r.ends[1])*r.size>>10) }}

// cpu is the CPU time of the process in us for each KiB of payload.
var cpu = figure{0, func(r *result) float64 { return float64(r.cpu) / 1e3 / float64(len(r.ends[1])*r.size>>10) }}

// endTimes returns a quantile of the completion times in us, at the source (0) or at the target (1).
func endTimes(load, side int, q float64) figure {
	return figure{load, func(r *result) float64 { return quantile(r.ends[side], q) }}
}

// series returns a figure of each round, NaN where there is none.
func (o rounds) series(f figure) compare.Series {
	return compare.Runs[round](o).Series(func(r round) float64 {
		if r.byLoad[f.load] == nil {
			return math.NaN()
		}
		return f.value(r.byLoad[f.load])
	})
}

// of returns the median of a figure over the rounds that have it, NaN if there is none.
func (o rounds) of(f figure) float64 {
	return slices.DeleteFunc(o.series(f), math.IsNaN).Median()
}

// over returns the ratio of medians of two contenders, and the ratios of the rounds.
func (o rounds) over(other rounds, f figure) (ratio float64, rounds compare.Series) {
	return o.of(f) / other.of(f), o.series(f).Over(other.series(f))
}

// failed says why a contender could not go on, or is empty.
func (o rounds) failed() (why string) {
	for _, r := range o {
		why = cmp.Or(why, r.failed)
	}
	return why
}

func (o rounds) unfinished() (n int) {
	for _, r := range o {
		for _, x := range r.byLoad {
			if x != nil {
				n += x.unfinished
			}
		}
	}
	return n
}

// Limits of out-of-order mode.
var (
	leastOfIdeal = 0.95                        // share of the goodput without impairments and of what is not lost
	leastOfSACK  = compare.AtLeast(1, "%.0f")  // goodput over that of RC with SACK
	mostSent     = compare.AtMost(1.1, "%.1f") // packets sent for one that is delivered
	mostOfSACK   = compare.AtMost(0.5, "%.1f") // p99 over that of RC with SACK
)

// disorderGoals are those of out-of-order mode.
func disorderGoals(rows []disorderRow) (goals compare.Goals) {
	base := math.NaN() // without impairments
	for i := range rows {
		r := &rows[i]
		where := fmt.Sprintf("loss %g %%, reordering %g %%: ", r.loss, r.reorder)
		o, sack, filled := r.of[disorderInOOO], r.of[disorderInSACK], r.of[disorderInMTU]
		for _, x := range []rounds{o, sack, filled} {
			why := x.failed()
			goals.Expect(why == "", "%s%s", where, why)
		}
		if r.loss == 0 && r.reorder == 0 {
			base = o.of(goodput)
		}
		if r.loss == 1 && r.reorder == 50 && !math.IsNaN(base) {
			want, got := leastOfIdeal*(1-r.loss/100), o.of(goodput)/base
			goals.Add(compare.AtLeast(want, "%.2f").Judge(got, o.series(goodput).Scale(1/base)),
				"%s%.2f of the goodput without loss, want %.2f", where, got, want)
		}
		ratio, rounds := o.over(sack, goodput)
		goals.Add(leastOfSACK.Judge(ratio, rounds), "%sgoodput %.0f Mbit/s, RC with SACK has %.0f", where, o.of(goodput), sack.of(goodput))
		ratio, rounds = filled.over(sack, goodput)
		goals.Add(leastOfSACK.Judge(ratio, rounds),
			"%sgoodput %.0f Mbit/s with packets of the MTU, RC with SACK has %.0f", where, filled.of(goodput), sack.of(goodput))
		if r.loss == 5 {
			got := o.of(perDelivered)
			goals.Add(mostSent.Judge(got, o.series(perDelivered)), "%s%.3f packets sent per packet delivered, want 1.1", where, got)
		}
		for k, load := range disorderLoads {
			p99 := endTimes(k, 1, .99)
			ours, theirs := o.of(p99), sack.of(p99)
			if r.reorder == 0 || math.IsNaN(ours) && math.IsNaN(theirs) {
				continue // the load is not measured, or both have failed
			}
			ratio, rounds := o.over(sack, p99)
			goals.Add(mostOfSACK.Judge(ratio, rounds),
				"%sp99 %.0f us at %s, RC with SACK has %.0f%s", where, ours, loadName(load), theirs, r.reason(k, theirs/2))
		}
	}
	return goals
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
	figure
}

func disorderReport(out *compare.Report, c disorderConfig, rows []disorderRow) {
	out.Print("Two hosts on one machine, %g Mbit/s, messages of %d bytes, MTU 1500, PMTU 1024. Runs of %s, median of %d.\n", c.rate, c.size, c.each, c.rounds)
	if !c.direct {
		out.Print("A box between them loses packets, and delays some by up to %s.\n", c.delay)
	}
	out.Print("Full load: %d messages outstanding. Times in us, until the consumer at the target knows, or the source.\n", disorderOutstanding)
	out.Print("Packets: of both directions and all kinds, for each KiB of payload.\n")
	out.Print("CPU: us of the machine for each KiB of payload, with the box. Columns: ooo, RC with SACK, RC go-back-N, and ooo with packets of 1392 bytes.\n")
	columns := []disorderColumn{
		{"goodput Mbit/s", "%7.0f", goodput},
		{"sent per delivered", "%7.3f", perDelivered},
		{"packets", "%7.2f", wire},
		{"CPU", "%7.1f", cpu},
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
			columns = append(columns, disorderColumn{loadName(load) + ": " + what.name, "%7.0f", endTimes(k, what.side, what.q)})
		}
	}
	const inOneGrid = 5
	for len(columns) > 0 {
		n := min(inOneGrid, len(columns))
		disorderGrid(out, rows, columns[:n])
		columns = columns[n:]
	}
	out.Print("\n")
	for i := range rows {
		for k := range disorderContend {
			o := rows[i].of[k]
			if why := o.failed(); why != "" {
				out.Print("loss %g %%, reordering %g %%: ended: %s\n", rows[i].loss, rows[i].reorder, why)
			}
			if n := o.unfinished(); n > 0 {
				out.Print("loss %g %%, reordering %g %%: %s: %d messages had not ended %s after the run\n", rows[i].loss, rows[i].reorder, disorderContend[k].name, n, disorderPatience)
			}
		}
	}
	out.Goals(disorderGoals(rows).Unmet())
}

// disorderGrid prints a table with a line for each cell.
func disorderGrid(out *compare.Report, rows []disorderRow, columns []disorderColumn) {
	out.Print("\n%5s %5s", "loss", "reord")
	for _, c := range columns {
		out.Print(" | %-*s", 8*disorderContenders-1, c.name)
	}
	out.Print("\n")
	for i := range rows {
		r := &rows[i]
		out.Print("%4g%% %4g%%", r.loss, r.reorder)
		for _, c := range columns {
			out.Print(" |")
			for k := range r.of {
				out.Print(" "+c.format, r.of[k].of(c.figure))
			}
		}
		out.Print("\n")
	}
}
