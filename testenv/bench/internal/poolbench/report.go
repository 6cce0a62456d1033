// SPDX-License-Identifier: Apache-2.0

package poolbench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/softroce/softroce-xdp/mempool/vmm/exercise"
)

// Goals of issue S4.4.
const (
	handlerNanos = 17_000 // page-in over READ of 4 KB: a bare handler (7 us) and 10 us
	scanShare    = 0.5    // scan over the goodput of READs
)

// report has what was measured.
type report struct {
	out         io.Writer
	megs        int64
	all         row
	maps, swaps []row // rows by the share that is local, in the same order
}

// goal is one that a figure has to reach.
type goal struct {
	text string
	met  bool
}

// goals compares the figures.
func (r *report) goals() (list []goal) {
	for i, m := range r.maps {
		s := r.swaps[i]
		part := fmt.Sprintf("%d of %d MiB local: ", m.local, r.megs)
		mine, theirs := m.Step("random").PageIns, s.Step("random").PageIns
		if mine == nil || theirs == nil {
			list = append(list, goal{part + "page-ins were measured", false})
			continue
		}
		scan := 8 * m.Step("scan").Rate()
		list = append(list,
			goal{part + "the result is that of local memory (pool, swap)", m.Hash() != "" && m.Hash() == r.all.Hash() && s.Hash() == r.all.Hash()},
			goal{part + fmt.Sprintf("page-in p50 %s, at most READ of 4 KB + 17 us = %s", us(mine.P50), us(m.read.P50+handlerNanos)), mine.P50 <= m.read.P50+handlerNanos},
			goal{part + fmt.Sprintf("page-in p50 %s, below swap's %s", us(mine.P50), us(theirs.P50)), mine.P50 < theirs.P50},
			goal{part + fmt.Sprintf("page-in p99 %s, below swap's %s", us(mine.P99), us(theirs.P99)), mine.P99 < theirs.P99},
			goal{part + fmt.Sprintf("scan %.2f Gbit/s, at least %.1f of READ's %.2f", scan/1e9, scanShare, m.stream/1e9), scan >= scanShare*m.stream},
		)
	}
	return list
}

func us(nanos int64) string { return fmt.Sprintf("%.1f us", float64(nanos)/1e3) }

// print prints tables and goals. It returns false if a goal is missed.
func (r *report) print() (ok bool) {
	fmt.Fprintf(r.out, "A program with %d MiB of memory.\n\n", r.megs)
	t := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "MEMORY\tLOCAL MIB\tFILL S\tRANDOM S\tSCAN S\tHASH S\tSLOWDOWN\tPAGE-INS\tP50 US\tP99 US\tSCAN GBIT/S\t")
	rows := []row{r.all}
	for i := range r.maps {
		rows = append(rows, r.maps[i], r.swaps[i])
	}
	for _, x := range rows {
		ins := exercise.Times{}
		if p := x.Step("random").PageIns; p != nil {
			ins = *p
		}
		fmt.Fprintf(t, "%s\t%d\t", x.name, x.local)
		for _, step := range []string{"fill", "random", "scan", "hash"} {
			fmt.Fprintf(t, "%.2f\t", x.Step(step).Took.Seconds())
		}
		fmt.Fprintf(t, "%.1f\t%d\t%.1f\t%.1f\t%.2f\t\n", x.Took().Seconds()/max(r.all.Took().Seconds(), 1e-9), ins.Count,
			float64(ins.P50)/1e3, float64(ins.P99)/1e3, 8*x.Step("scan").Rate()/1e9)
	}
	t.Flush()
	fmt.Fprintln(r.out)
	for _, m := range r.maps {
		fmt.Fprintf(r.out, "Before the pool with %d MiB local: READ of 4 KB p50 %s, p99 %s; READs of 64 KB %.2f Gbit/s.\n", m.local, us(m.read.P50), us(m.read.P99), m.stream/1e9)
	}
	fmt.Fprintln(r.out)
	ok = true
	for _, g := range r.goals() {
		verdict := "ok"
		if !g.met {
			verdict, ok = "MISSED", false
		}
		fmt.Fprintf(r.out, "%-6s  %s\n", verdict, g.text)
	}
	return ok
}
