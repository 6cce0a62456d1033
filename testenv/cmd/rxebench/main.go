// SPDX-License-Identifier: Apache-2.0

// Rxebench measures Linux rxe and our engine between the same two virtual machines: perftest on
// rxe, `softroce-xdp perf` on the engine, taking turns, with the same sizes, path MTU and messages
// under way. It exits with 1 if the engine is slower anywhere.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/rxepeer"
)

type options struct {
	bin     string
	attach  string
	rounds  int
	seconds int
	mtu     int
	pmtu    int
	depth   int
	cpus    int
	verbose bool
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin/softroce-xdp", "the product's static binary")
	flag.StringVar(&o.attach, "attach", "", "further flags of `softroce-xdp attach`, separated by spaces")
	flag.IntVar(&o.rounds, "rounds", 3, "times that each is measured; the median counts")
	flag.IntVar(&o.seconds, "seconds", 3, "length of a measurement")
	flag.IntVar(&o.mtu, "mtu", 1500, "of the machines' interfaces")
	flag.IntVar(&o.pmtu, "pmtu", 1024, "path MTU")
	flag.IntVar(&o.depth, "depth", 64, "messages under way")
	flag.IntVar(&o.cpus, "cpus", 1, "of each machine")
	flag.BoolVar(&o.verbose, "v", false, "print the results of each measurement of the engine, and the table of destinations after it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	ok, err := run(ctx, o)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "rxebench:", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

// The table.
var (
	operations = []string{"write", "send", "read"}
	sizes      = []int{4 << 10, 64 << 10, 1 << 20}
)

// row is one line: the figures of all rounds, in bit/s.
type row struct {
	op       string
	size     int
	rxe, own []float64
}

func run(ctx context.Context, o options) (ok bool, err error) {
	if o.rounds < 1 || o.seconds < 1 {
		return false, errors.New("-rounds and -seconds must be at least 1")
	}
	if err := rxepeer.CheckHost(); err != nil {
		return false, err
	}
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return false, err
	}
	net, err := rxepeer.NewNet(o.mtu)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	var configs []rxepeer.Config
	for i, name := range []string{"client", "server"} {
		addr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 79, 0, byte(i + 1)}), 24)
		configs = append(configs, rxepeer.Config{
			Name: name, Product: o.bin, CPUs: o.cpus, NICs: []rxepeer.NIC{{Net: net, MTU: o.mtu, Addrs: []netip.Prefix{addr}}},
		})
	}
	vms, err := rxepeer.BootAll(ctx, configs...)
	if err != nil {
		return false, err
	}
	defer func() {
		for _, vm := range vms {
			err = errors.Join(err, vm.Close())
		}
	}()
	b := bench{options: o, client: vms[0], server: vms[1]}
	if b.route, err = rxepeer.RouteTo(ctx, b.server, b.client, false); err != nil {
		return false, err
	}
	var rows []*row
	for _, op := range operations {
		for _, size := range sizes {
			rows = append(rows, &row{op: op, size: size})
		}
	}
	// Taking turns, and each first once in a while: what else the host does hits both alike.
	for round := range o.rounds {
		for turn := range 2 {
			part, f := "rxe", b.rxe
			if (round+turn)%2 == 1 {
				part, f = "engine", b.engine
			}
			fmt.Fprintf(os.Stderr, "round %d: %s\n", round+1, part)
			if err := f(ctx, rows); err != nil {
				return false, fmt.Errorf("%s: %w", part, err)
			}
		}
	}
	fmt.Printf("Linux %s in two machines of %d CPU, MTU %d, path MTU %d, one queue pair, %d messages under way, median of %d rounds of %d s\n\n",
		b.client.Kernel, o.cpus, o.mtu, o.pmtu, o.depth, o.rounds, o.seconds)
	return report(rows), nil
}

// target is the least ratio of the engine to rxe.
const target = 1.0

func report(rows []*row) (ok bool) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "OPERATION\tSIZE\tRXE MBIT/S\tMIN\tMAX\tENGINE MBIT/S\tMIN\tMAX\tRATIO\tTARGET\t")
	ok = true
	for _, r := range rows {
		ratio := median(r.own) / median(r.rxe)
		verdict := "ok"
		if ratio < target {
			ok, verdict = false, "MISSED"
		}
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t>= %.1f %s\t\n", r.op, r.size,
			median(r.rxe)/1e6, slices.Min(r.rxe)/1e6, slices.Max(r.rxe)/1e6,
			median(r.own)/1e6, slices.Min(r.own)/1e6, slices.Max(r.own)/1e6, ratio, target, verdict)
	}
	w.Flush()
	return ok
}

func median[T cmp.Ordered](v []T) T {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// warmup of the engine's measurements; perftest has none that it would not count.
const warmup = 500 * time.Millisecond
