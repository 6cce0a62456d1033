// SPDX-License-Identifier: Apache-2.0

// Sweep runs `softroce-xdp perf` over operations, services, sizes, MTUs, PMTUs, queue pairs and depths
// (package sweep), prints a table, and exits with 1 if a run did not end or sent too much. Needs root.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/sweep"
)

func main() {
	o := sweep.Options{}
	flag.StringVar(&o.Bin, "bin", "bin/softroce-xdp", "the product's binary")
	flag.DurationVar(&o.Duration, "time", time.Second, "length of a measurement")
	flag.DurationVar(&o.Bound, "bound", 90*time.Second, "after which a run is taken for one that does not end")
	match := flag.String("match", "", "only cases whose line has this in it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	missed, err := run(ctx, o, *match)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "sweep:", err)
		os.Exit(2)
	case missed > 0:
		os.Exit(1)
	}
}

func run(ctx context.Context, o sweep.Options, match string) (missed int, err error) {
	if o.Bin, err = filepath.Abs(o.Bin); err != nil {
		return 0, err
	}
	var cases []sweep.Case
	for _, c := range sweep.Pairwise() {
		if strings.Contains(c.String(), match) {
			cases = append(cases, c)
		}
	}
	if len(cases) == 0 {
		return 0, fmt.Errorf("-match %q: no case has that in its line", match)
	}
	fmt.Printf("%-12s %8s %5s %5s %5s %6s %7s %8s %9s %8s %7s %8s\n",
		"OPERATION", "SIZE", "MTU", "PMTU", "QPS", "DEPTH", "TOOK", "GBIT/S", "MESSAGES", "AGAIN", "SENT", "ARRIVED")
	err = sweep.Run(ctx, o, cases, func(r sweep.Result) {
		c, verdict := r.Case, ""
		if err := r.Miss(); err != nil {
			missed++
			verdict = "  MISSED: " + err.Error()
		}
		fmt.Printf("%-12s %8d %5d %5d %5d %6d %6.1fs %8.2f %9d %8d %7.3f %8.3f%s\n", c.Service+" "+c.Op, c.Size, c.MTU, c.PMTU, c.QPs, c.Depth,
			r.Took.Seconds(), r.Gbps, r.Messages, r.Again, r.Sent(), r.Arrived, verdict)
	})
	fmt.Printf("%d of %d runs missed: each must end within %v and send at most %.2f packets for one delivered\n", missed, len(cases), o.Bound, sweep.MostSent)
	return missed, err
}
