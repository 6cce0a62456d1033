// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"fmt"
	"io"
	"strings"
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
func virtualReport(w io.Writer, rows []virtualRow, misses []miss, messages int) error {
	all, two, source := []int{virtualInOOO, virtualInSACK, virtualInGBN}, []int{virtualInOOO, virtualInSACK}, []int{virtualInOOO, inPlain, virtualInSACK}
	mtu := []int{virtualInMTU, virtualInSACK}
	fmt.Fprintf(w, "%d messages of %d bytes, PMTU 1024, 10 Gbit/s, base RTT %d us, window %d packets.\n", messages, messageLen, 2*delay/1000, window)
	fmt.Fprintf(w, "Reordered packets are delayed by up to %d us. Full load: %d messages outstanding. Times in us.\n\n", reorderBy/1000, virtualOutstanding)
	fmt.Fprintf(w, "Columns: ooo, RC with SACK, RC go-back-N. Times: until the consumer at the target knows.\n")
	virtualGrid(w, rows, []virtualColumn{
		{"goodput Mbit/s", "%7.0f", all, func(f *figures) float64 { return f.goodput / 1e6 }},
		{"sent per delivered", "%7.3f", all, func(f *figures) float64 { return f.ratio }},
		{"full load: p50", "%7.0f", all, func(f *figures) float64 { return f.full.target.p50 }},
		{"full load: p99", "%7.0f", all, func(f *figures) float64 { return f.full.target.p99 }},
		{"40 % load: p50", "%7.0f", all, func(f *figures) float64 { return f.load[0].target.p50 }},
		{"40 % load: p99", "%7.0f", all, p99AtLoad(0)},
		{"60 %: p99", "%7.0f", two, p99AtLoad(1)},
		{"80 %: p99", "%7.0f", two, p99AtLoad(2)},
	})
	fmt.Fprintf(w, "\nTimes until the source knows. Columns: ooo WRITE with notification, ooo WRITE without, RC with SACK.\n")
	virtualGrid(w, rows, []virtualColumn{
		{"full load: p50", "%7.0f", source, func(f *figures) float64 { return f.full.source.p50 }},
		{"full load: p99", "%7.0f", source, func(f *figures) float64 { return f.full.source.p99 }},
		{"40 % load: p50", "%7.0f", source, func(f *figures) float64 { return f.load[0].source.p50 }},
		{"40 % load: p99", "%7.0f", source, func(f *figures) float64 { return f.load[0].source.p99 }},
		{"60 % load: p99", "%7.0f", source, func(f *figures) float64 { return f.load[1].source.p99 }},
		{"80 % load: p99", "%7.0f", source, func(f *figures) float64 { return f.load[2].source.p99 }},
	})
	fmt.Fprintf(w, "\nEthernet MTU 1500: ooo with %d bytes of data in a packet, RC with SACK with PMTU %d, the largest that fits.\n", mtuPayload, rcPayload)
	virtualGrid(w, rows, []virtualColumn{
		{"goodput Mbit/s", "%7.0f", mtu, func(f *figures) float64 { return f.goodput / 1e6 }},
		{"full load: p99", "%7.0f", mtu, func(f *figures) float64 { return f.full.target.p99 }},
		{"40 %: p99", "%7.0f", mtu, p99AtLoad(0)},
		{"60 %: p99", "%7.0f", mtu, p99AtLoad(1)},
		{"80 %: p99", "%7.0f", mtu, p99AtLoad(2)},
	})
	limits(w, rows)
	for _, m := range misses {
		fmt.Fprintf(w, "missed: %s", m.what)
		if m.unreachable != "" {
			fmt.Fprintf(w, " (out of reach: %s)", m.unreachable)
		}
		fmt.Fprintln(w)
	}
	return nil
}

// virtualGrid prints a table with a line for each cell.
func virtualGrid(w io.Writer, rows []virtualRow, columns []virtualColumn) {
	fmt.Fprintf(w, "\n%5s %5s", "loss", "reord")
	for _, c := range columns {
		fmt.Fprintf(w, " | %-*s", 8*len(c.of)-1, c.name)
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprintf(w, "%4g%% %4g%%", 100*r.loss, 100*r.reorder)
		for _, c := range columns {
			fmt.Fprint(w, " |")
			for _, i := range c.of {
				fmt.Fprintf(w, " "+c.format, c.value(&r.of[i]))
			}
		}
		fmt.Fprintln(w)
	}
}

// limits prints what follows from the wire and from S3.3 alone.
func limits(w io.Writer, rows []virtualRow) {
	fmt.Fprintf(w, "\nPayload share of the wire: ooo %.4f, RC %.4f, ooo with %d bytes in a packet %.4f.\n",
		oooShare(rcPayload), rcShare(rcPayload), mtuPayload, oooShare(mtuPayload))
	fmt.Fprintf(w, "Least mean at full load (Little's law), us: ooo %.0f without loss.\n", leastMean(oooShare(rcPayload), 0))
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%4g%% %4g%%", 100*r.loss, 100*r.reorder)
		for i := range virtualLoads {
			fmt.Fprintf(&b, " | %5.0f", r.least[i].p99)
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(w, "Least p99 of three trips without probes at 40, 60 and 80 %% load, us:\n%s\n", b.String())
}
