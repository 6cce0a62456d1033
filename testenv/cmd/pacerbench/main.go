// SPDX-License-Identifier: Apache-2.0

// Pacerbench prints how well each pacer keeps its rates: what leaves, how far that is
// from the rate, and how soon a changed rate is in force.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/rate"
	"github.com/softroce/softroce-xdp/testenv/pacers"
)

func main() {
	bin := flag.String("bin", "bin/softroce-xdp", "the product")
	names := flag.String("pacers", strings.Join(pacers.Names, ","), "which")
	list := flag.String("rates", "1M,3M,10M,30M,100M,300M,1G,2G,3G,5G,8G", "at which rates")
	measure := flag.Duration("measure", 2*time.Second, "how long each rate is measured")
	stamped := flag.Bool("stamped", false, "the peer has the product too, so packets carry stamps")
	stalls := flag.Bool("emulated", false, "this machine is emulated, and stands still now and then")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()

	cfg := pacers.Config{Bin: *bin, Measure: *measure, Tries: 3, Stamped: *stamped, Stalls: *stalls}
	for _, s := range strings.Split(*list, ",") {
		bps, err := rate.Parse(s)
		if err != nil {
			fmt.Fprintln(os.Stderr, "pacerbench: -rates:", err)
			os.Exit(1)
		}
		cfg.Rates = append(cfg.Rates, bps)
	}
	fmt.Println(pacers.Head)
	bad := false
	cfg.Note = func(r pacers.Row) {
		fmt.Println(r)
		bad = bad || r.Verdict() != nil
	}
	if _, err := pacers.Run(ctx, cfg, strings.Split(*names, ",")...); err != nil {
		fmt.Fprintln(os.Stderr, "pacerbench:", err)
		os.Exit(2)
	}
	if bad {
		os.Exit(1)
	}
}
