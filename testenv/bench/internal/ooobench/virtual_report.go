// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"fmt"
	"strings"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// virtualColumn is one value of each of some contenders.
type virtualColumn struct {
	name, format string
	of           []int
	value        func(f *figures) float64
}

func p99AtLoad(i int) func(f *figures) float64 {
	return func(f *figures) float64 { return f.load[i].target.p99 }
}

// virtualReport prints the tables and what is missed.
func virtualReport(out *compare.Report, rows []virtualRow, misses []miss, messages int) {
	all, two, source := []int{virtualInOOO, virtualInSACK, virtualInGBN}, []int{virtualInOOO, virtualInSACK}, []int{virtualInOOO, inPlain, virtualInSACK}
	mtu := []int{virtualInMTU, virtualInSACK}
	out.Print("%d messages of %d bytes, PMTU 1024, 10 Gbit/s, base RTT %d us, window %d packets.\n", messages, messageLen, 2*delay/1000, window)
	out.Print("Reordered packets are delayed by up to %d us. Full load: %d messages outstanding. Times in us.\n\n", reorderBy/1000, virtualOutstanding)
	out.Print("Columns: ooo, RC with SACK, RC go-back-N. Times: until the consumer at the target knows.\n")
	virtualGrid(out, rows, []virtualColumn{
		{"goodput Mbit/s", "%7.0f", all, func(f *figures) float64 { return f.goodput / 1e6 }},
		{"sent per delivered", "%7.3f", all, func(f *figures) float64 { return f.ratio }},
		{"full load: p50", "%7.0f", all, func(f *figures) float64 { return f.full.target.p50 }},
		{"full load: p99", "%7.0f", all, func(f *figures) float64 { return f.full.target.p99 }},
		{"40 % load: p50", "%7.0f", all, func(f *figures) float64 { return f.load[0].target.p50 }},
		{"40 % load: p99", "%7.0f", all, p99AtLoad(0)},
		{"60 %: p99", "%7.0f", two, p99AtLoad(1)},
		{"80 %: p99", "%7.0f", two, p99AtLoad(2)},
	})
	out.Print("\nTimes until the source knows. Columns: ooo WRITE with notification, ooo WRITE without, RC with SACK.\n")
	virtualGrid(out, rows, []virtualColumn{
		{"full load: p50", "%7.0f", source, func(f *figures) float64 { return f.full.source.p50 }},
		{"full load: p99", "%7.0f", source, func(f *figures) float64 { return f.full.source.p99 }},
		{"40 % load: p50", "%7.0f", source, func(f *figures) float64 { return f.load[0].source.p50 }},
		{"40 % load: p99", "%7.0f", source, func(f *figures) float64 { return f.load[0].source.p99 }},
		{"60 % load: p99", "%7.0f", source, func(f *figures) float64 { return f.load[1].source.p99 }},
		{"80 % load: p99", "%7.0f", source, func(f *figures) float64 { return f.load[2].source.p99 }},
	})
	out.Print("\nEthernet MTU 1500: ooo with %d bytes of data in a packet, RC with SACK with PMTU %d, the largest that fits.\n", mtuPayload, rcPayload)
	virtualGrid(out, rows, []virtualColumn{
		{"goodput Mbit/s", "%7.0f", mtu, func(f *figures) float64 { return f.goodput / 1e6 }},
		{"full load: p99", "%7.0f", mtu, func(f *figures) float64 { return f.full.target.p99 }},
		{"40 %: p99", "%7.0f", mtu, p99AtLoad(0)},
		{"60 %: p99", "%7.0f", mtu, p99AtLoad(1)},
		{"80 %: p99", "%7.0f", mtu, p99AtLoad(2)},
	})
	limits(out, rows)
	var goals compare.Goals
	for _, m := range misses {
		if m.unreachable != "" {
			m.what += fmt.Sprintf(" (out of reach: %s)", m.unreachable)
		}
		goals.Expect(false, "%s", m.what)
	}
	out.Goals(goals)
}

// virtualGrid prints a table with a line for each cell.
func virtualGrid(out *compare.Report, rows []virtualRow, columns []virtualColumn) {
	out.Print("\n%5s %5s", "loss", "reord")
	for _, c := range columns {
		out.Print(" | %-*s", 8*len(c.of)-1, c.name)
	}
	out.Print("\n")
	for _, r := range rows {
		out.Print("%4g%% %4g%%", 100*r.loss, 100*r.reorder)
		for _, c := range columns {
			out.Print(" |")
			for _, i := range c.of {
				out.Print(" "+c.format, c.value(&r.of[i]))
			}
		}
		out.Print("\n")
	}
}

// limits prints what follows from the wire and from S3.3 alone.
func limits(out *compare.Report, rows []virtualRow) {
	out.Print("\nPayload share of the wire: ooo %.4f, RC %.4f, ooo with %d bytes in a packet %.4f.\n",
		oooShare(rcPayload), rcShare(rcPayload), mtuPayload, oooShare(mtuPayload))
	out.Print("Least mean at full load (Little's law), us: ooo %.0f without loss.\n", leastMean(oooShare(rcPayload), 0))
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%4g%% %4g%%", 100*r.loss, 100*r.reorder)
		for i := range virtualLoads {
			fmt.Fprintf(&b, " | %5.0f", r.least[i].p99)
		}
		fmt.Fprintln(&b)
	}
	out.Print("Least p99 of three trips without probes at 40, 60 and 80 %% load, us:\n%s\n", b.String())
}
