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
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

type options struct {
	bin     string
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
	var o options
	cmd := &cobra.Command{
		Use:   "rxe",
		Short: "Compare rxe and the engine between the same two virtual machines",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return status.Verdict(rxeRun(cmd.Context(), o)) },
	}
	f := cmd.Flags()
	f.StringVar(&o.bin, "bin", "bin/softroce-xdp", "the product's static binary")
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
	operations = []string{"write", "send", "read"}
	sizes      = []int{4 << 10, 64 << 10, 1 << 20}
)

// parts are what is measured.
var parts = []struct {
	name    string
	measure func(*bench, context.Context, []*row) error
}{
	{"rxe", (*bench).rxe},
	{"engine", func(b *bench, ctx context.Context, rows []*row) error {
		return b.engine(ctx, rows, func(r *row, bps float64) { r.engine = append(r.engine, bps) })
	}},
	{"engine at a fixed rate", func(b *bench, ctx context.Context, rows []*row) error {
		return b.engine(ctx, rows, func(r *row, bps float64) { r.fixed = append(r.fixed, bps) }, "--policy", "mode=fixed")
	}},
}

// depthOf is how many messages of a size are outstanding.
func (o options) depthOf(size int) int { return max(1, min(o.depth, 4<<20/size)) }

// row is one line: the figures of all rounds, in bit/s.
type row struct {
	op     string
	size   int
	rxe    []float64
	engine []float64 // attached without further flags
	fixed  []float64 // attached at a fixed rate, without congestion control
}

func rxeRun(ctx context.Context, o options) (ok bool, err error) {
	if o.rounds < 1 || o.seconds < 1 {
		return false, errors.New("--rounds and --seconds must be at least 1")
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
		for turn := range parts {
			p := parts[(round+turn)%len(parts)]
			fmt.Fprintf(os.Stderr, "round %d: %s\n", round+1, p.name)
			if err := p.measure(&b, ctx, rows); err != nil {
				return false, fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	fmt.Printf("Linux %s in two machines of %d CPU, MTU %d, path MTU %d, one queue pair, %d messages or 4 MB outstanding, median of %d rounds of %d s\n\n",
		b.client.Kernel, o.cpus, o.mtu, o.pmtu, o.depth, o.rounds, o.seconds)
	return rxeReport(rows), nil
}

// rxeTarget is the least ratio of the engine to rxe.
const rxeTarget = 1.0

func rxeReport(rows []*row) (ok bool) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MBIT/S\tSIZE\tRXE\tMIN..MAX\tENGINE\tMIN..MAX\tRATIO\tTARGET\tAT A FIXED RATE\tMIN..MAX\tRATIO\t")
	ok = true
	for _, r := range rows {
		verdict := "ok"
		ratio := status.Median(r.engine) / status.Median(r.rxe)
		if ratio < rxeTarget {
			ok, verdict = false, "MISSED"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%.2f\t>= %.1f %s\t%s\t%.2f\t\n", r.op, r.size,
			rxeFigures(r.rxe), rxeFigures(r.engine), ratio, rxeTarget, verdict, rxeFigures(r.fixed), status.Median(r.fixed)/status.Median(r.rxe))
	}
	w.Flush()
	return ok
}

// rxeFigures are the median, and the extremes in a column of their own.
func rxeFigures(bps []float64) string {
	return fmt.Sprintf("%.1f\t%.1f..%.1f", status.Median(bps)/1e6, slices.Min(bps)/1e6, slices.Max(bps)/1e6)
}

// warmup of the engine's measurements; perftest has none that it would not count.
const warmup = 500 * time.Millisecond
