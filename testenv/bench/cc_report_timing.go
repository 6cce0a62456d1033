// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// cost is what one run took of a CPU.
type cost struct {
	experiment.Cost
	scheme     string
	hosts      int
	setUp, run time.Duration // the network and the flows' ways; the packets
}

// timed runs the jobs one after another, and tables what a link crossing costs.
func (o *ccReportOptions) timed(ctx context.Context, jobs []experiment.Job) (results []*experiment.Result, table string, err error) {
	var costs []cost
	for i, j := range jobs {
		says := o.says(jobs[i : i+1])
		begin, built := compare.CPU(), time.Duration(0)
		r, err := o.runAll(ctx, jobs[i:i+1], 1, func(job int, share float64) {
			if share == 0 {
				built = compare.CPU()
			}
			says(job, share)
		})
		if err != nil {
			return nil, "", err
		}
		results = append(results, r...)
		costs = append(costs, cost{r[0].Cost, j.Scheme.Label, j.Scenario.Topology.Size(), built - begin, compare.CPU() - built})
	}
	return results, costTable(costs), nil
}

// costTable compares each run with the first one of its scheme, the smallest network.
func costTable(costs []cost) string {
	var b strings.Builder
	fmt.Fprint(&b, `What the simulator costs on this machine, in CPU time; another run gives other times. Every network carries about as many
packets. Set-up is the network and the flows with their ways, before the first packet.

`)
	fmt.Fprintf(&b, "%6s  %-12s %9s %9s %11s %11s %24s %24s\n",
		"hosts", "scheme", "set-up s", "run s", "packets/s", "links/s", "ns per link", "with set-up")
	smallest := map[string]cost{}
	for _, c := range costs {
		first, ok := smallest[c.scheme]
		if !ok {
			first, smallest[c.scheme] = c, c
		}
		run, all := c.perLink(c.run), c.perLink(c.setUp+c.run)
		fmt.Fprintf(&b, "%6d  %-12s %9.2f %9.2f %11.0f %11.0f %9.1f %14s %9.1f %14s\n",
			c.hosts, c.scheme, c.setUp.Seconds(), c.run.Seconds(), float64(c.Packets)/c.run.Seconds(), float64(c.Hops)/c.run.Seconds(),
			run, against(run, first.perLink(first.run), first.hosts), all, against(all, first.perLink(first.setUp+first.run), first.hosts))
	}
	return b.String()
}

// perLink is nanoseconds per link that a packet crossed.
func (c *cost) perLink(d time.Duration) float64 { return float64(d) / float64(max(1, c.Hops)) }

func against(v, first float64, hosts int) string { return fmt.Sprintf("%.2f of %d", v/first, hosts) }
