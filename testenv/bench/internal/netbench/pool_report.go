// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"fmt"

	"github.com/softroce/softroce-xdp/mempool/vmm/exercise"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// Goals of S4.4.
const (
	handlerNanos = 17_000 // page-in over READ of 4 KB: a bare handler (7 us) and 10 us
	scanShare    = 0.5    // scan over the goodput of READs
)

// poolReport has what was measured.
type poolReport struct {
	megs        int64
	all         poolRow
	maps, swaps []poolRow // rows in the order of the local share
}

// goals compares the figures. Each was measured once.
func (r *poolReport) goals() (list compare.Goals) {
	for i, m := range r.maps {
		s := r.swaps[i]
		part := fmt.Sprintf("%d of %d MiB local: ", m.local, r.megs)
		mine, theirs := m.Step("random").PageIns, s.Step("random").PageIns
		if mine == nil || theirs == nil {
			list.Add(compare.NotMeasured, "%spage-ins", part)
			continue
		}
		scan, most := 8*m.Step("scan").Rate(), m.read.P50+handlerNanos
		list.Expect(m.Hash() != "" && m.Hash() == r.all.Hash() && s.Hash() == r.all.Hash(), "%sthe result is that of local memory (pool, swap)", part)
		list.Expect(mine.P50 <= most, "%spage-in p50 %s, at most READ of 4 KB + 17 us = %s", part, micros(mine.P50), micros(most))
		list.Expect(mine.P50 < theirs.P50, "%spage-in p50 %s, below swap's %s", part, micros(mine.P50), micros(theirs.P50))
		list.Expect(mine.P99 < theirs.P99, "%spage-in p99 %s, below swap's %s", part, micros(mine.P99), micros(theirs.P99))
		list.Expect(scan >= scanShare*m.stream, "%sscan %.2f Gbit/s, at least %.1f of READ's %.2f", part, scan/1e9, scanShare, m.stream/1e9)
	}
	return list
}

func micros(nanos int64) string { return fmt.Sprintf("%.1f us", float64(nanos)/1e3) }

// print prints tables and goals.
func (r *poolReport) print(out *compare.Report) {
	out.Print("A program with %d MiB of memory.\n\n", r.megs)
	t := out.Table("MEMORY\tLOCAL MIB\tFILL S\tRANDOM S\tSCAN S\tHASH S\tSLOWDOWN\tPAGE-INS\tP50 US\tP99 US\tSCAN GBIT/S\t")
	rows := []poolRow{r.all}
	for i := range r.maps {
		rows = append(rows, r.maps[i], r.swaps[i])
	}
	for _, x := range rows {
		ins := exercise.Times{}
		if p := x.Step("random").PageIns; p != nil {
			ins = *p
		}
		steps := ""
		for _, step := range []string{"fill", "random", "scan", "hash"} {
			steps += fmt.Sprintf("%.2f\t", x.Step(step).Took.Seconds())
		}
		t.Row("%s\t%d\t%s%.1f\t%d\t%.1f\t%.1f\t%.2f", x.name, x.local, steps, x.Took().Seconds()/max(r.all.Took().Seconds(), 1e-9), ins.Count,
			float64(ins.P50)/1e3, float64(ins.P99)/1e3, 8*x.Step("scan").Rate()/1e9)
	}
	t.End("")
	for _, m := range r.maps {
		out.Print("Before the pool with %d MiB local: READ of 4 KB p50 %s, p99 %s; READs of 64 KB %.2f Gbit/s.\n", m.local, micros(m.read.P50), micros(m.read.P99), m.stream/1e9)
	}
	out.Print("\n")
	out.Goals(r.goals())
}
