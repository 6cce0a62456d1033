// SPDX-License-Identifier: Apache-2.0

package netbench

// `bench rxe` measures Linux rxe and our engine between the same two virtual machines: perftest on
// rxe, `softroce-xdp perf` on the engine, taking turns, with the same sizes, path MTU and messages
// outstanding. A target is missed where the engine is slower.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

type rxeOptions struct {
	bin     string
	library string
	rounds  int
	seconds int
	mtu     int
	pmtu    int
	depth   int
	cpus    int
	verbose bool
}

// RxeCommand is the subcommand of bench.
func RxeCommand() *cobra.Command {
	var o rxeOptions
	cmd := &cobra.Command{
		Use:   "rxe",
		Short: "Compare rxe and the engine between the same two virtual machines",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return compare.Failure(rxeRun(cmd.Context(), o)) },
	}
	f := cmd.Flags()
	f.StringVar(&o.bin, "bin", "bin/softroce-xdp", "the product's static binary")
	f.StringVar(&o.library, "library", "", "measure programs of perftest on rxe and with the library of this directory instead, for example bin/verbs")
	f.IntVar(&o.rounds, "rounds", 3, "times that each is measured; the median counts")
	f.IntVar(&o.seconds, "seconds", 3, "length of a measurement")
	f.IntVar(&o.mtu, "mtu", 1500, "of the machines' interfaces")
	f.IntVar(&o.pmtu, "pmtu", 1024, "path MTU")
	f.IntVar(&o.depth, "depth", 64, "messages in flight, as far as they are not more than 4 MB")
	f.IntVar(&o.cpus, "cpus", 1, "of each machine")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print the results of each measurement of the engine, and the table of destinations after it")
	return cmd
}

// The table.
var (
	rxeOperations = []string{"write", "send", "read"}
	rxeSizes      = []int{4 << 10, 64 << 10, 1 << 20}
)

// rxeParts are what is measured. Each gives the bit/s of all rows.
var rxeParts = []struct {
	name    string
	measure func(*rxeBench, context.Context) ([]float64, error)
}{
	{"rxe", (*rxeBench).rxe},
	{"engine", func(b *rxeBench, ctx context.Context) ([]float64, error) { return b.engine(ctx) }},
	{"engine at a fixed rate", func(b *rxeBench, ctx context.Context) ([]float64, error) {
		return b.engine(ctx, "--policy", "mode=fixed")
	}},
}

// depthOf is how many messages of a size are outstanding.
func (o rxeOptions) depthOf(size int) int { return max(1, min(o.depth, 4<<20/size)) }

// rxeRow is one line of the table.
type rxeRow struct {
	op   string
	size int
}

// rxeRows are all of them.
func rxeRows() (all []rxeRow) {
	for _, op := range rxeOperations {
		for _, size := range rxeSizes {
			all = append(all, rxeRow{op, size})
		}
	}
	return all
}

func rxeRun(ctx context.Context, o rxeOptions) (err error) {
	if o.rounds < 1 || o.seconds < 1 {
		return errors.New("--rounds and --seconds must be at least 1")
	}
	if err := rxepeer.CheckHost(); err != nil {
		return err
	}
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return err
	}
	net, err := rxepeer.NewNet(o.mtu)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	files, err := o.files()
	if err != nil {
		return err
	}
	var configs []rxepeer.Config
	for i, name := range []string{"client", "server"} {
		addr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 79, 0, byte(i + 1)}), 24)
		configs = append(configs, rxepeer.Config{
			Name: name, Product: o.bin, Files: files, CPUs: o.cpus, NICs: []rxepeer.NIC{{Net: net, MTU: o.mtu, Addrs: []netip.Prefix{addr}}},
		})
	}
	vms, err := rxepeer.BootAll(ctx, configs...)
	if err != nil {
		return err
	}
	defer func() {
		for _, vm := range vms {
			err = errors.Join(err, vm.Close())
		}
	}()
	for _, vm := range vms {
		fmt.Fprintln(os.Stderr, vm.Describe())
	}
	b := rxeBench{rxeOptions: o, client: vms[0], server: vms[1]}
	if b.route, err = rxepeer.RouteTo(ctx, b.server, b.client, false); err != nil {
		return err
	}
	r := compare.NewReport(os.Stdout)
	if o.library != "" {
		return b.programs(ctx, r)
	}
	var candidates []compare.Candidate[[]float64]
	for _, p := range rxeParts {
		candidates = append(candidates, compare.Candidate[[]float64]{Name: p.name, Measure: func(ctx context.Context) ([]float64, error) {
			fmt.Fprintf(os.Stderr, "%s\n", p.name)
			return p.measure(&b, ctx)
		}})
	}
	runs, err := compare.Turns(ctx, o.rounds, candidates...)
	if err != nil {
		return err
	}
	r.Print("Linux %s in two machines of %d CPU, MTU %d, path MTU %d, one queue pair, %d messages or 4 MB outstanding, median of %d rounds of %d s\n\n",
		b.client.Kernel, o.cpus, o.mtu, o.pmtu, o.depth, o.rounds, o.seconds)
	rxeReport(r, runs)
	return r.Err()
}

// rxeTarget is the least ratio of the engine to rxe.
var rxeTarget = compare.AtLeast(1, "%.1f")

// rxeReport prints the medians of the runs of parts, and the ratios of medians.
func rxeReport(r *compare.Report, runs []compare.Runs[[]float64]) {
	t := r.Table("MBIT/S\tSIZE\tRXE\tMIN TO MAX\tENGINE\tMIN TO MAX\tRATIO\tTARGET\t\tAT A FIXED RATE\tMIN TO MAX\tRATIO\t")
	for i, x := range rxeRows() {
		of := func(part int) compare.Series {
			return runs[part].Series(func(bps []float64) float64 { return bps[i] / 1e6 })
		}
		rxe, engine, fixed := of(0), of(1), of(2)
		ratio := engine.Median() / rxe.Median()
		t.Row("%s\t%d\t%.1f\t%s\t%.1f\t%s\t%.2f\t%s\t%.1f\t%s\t%.2f", x.op, x.size, rxe.Median(), rxe.Span("%.1f"), engine.Median(), engine.Span("%.1f"),
			ratio, t.Judge(rxeTarget, ratio, engine.Over(rxe)), fixed.Median(), fixed.Span("%.1f"), fixed.Median()/rxe.Median())
	}
	t.End()
}

// warmup of the engine's measurements; perftest has none that it would not count.
const warmup = 500 * time.Millisecond
