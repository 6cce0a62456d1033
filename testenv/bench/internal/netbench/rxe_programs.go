// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// `bench rxe --library DIR` measures the same programs of perftest on Linux rxe, and with the library of rocev2/clib, in turns
// between the same two virtual machines. The programs spin, or sleep until a completion (-e).

// The library in the machines, and the file of it.
const (
	rxeLibraryDir  = "/usr/lib/softroce"
	rxeLibraryFile = "libibverbs.so.1"
)

// rxeProgram is a line of the table.
type rxeProgram struct {
	title   string
	argv    []string // without device and address; the size is behind -s
	column  int      // The figure is in this column of perftest's line.
	latency bool     // the figure is a time in us; otherwise it is a rate
}

var rxePrograms = []rxeProgram{
	{"WRITE of 64 KB, Gbit/s", []string{"ib_write_bw", "-s", "65536", "-t", "64", "-n", "500", "--report_gbits"}, 3, false},
	{"READ of 64 KB, Gbit/s", []string{"ib_read_bw", "-s", "65536", "-t", "64", "-n", "500", "--report_gbits"}, 3, false},
	{"READ of 64 KB, -e", []string{"ib_read_bw", "-s", "65536", "-t", "64", "-n", "500", "--report_gbits", "-e"}, 3, false},
	{"SEND of 64 KB, Gbit/s", []string{"ib_send_bw", "-s", "65536", "-t", "64", "-n", "500", "--report_gbits"}, 3, false},
	{"SEND of 64 KB, -e", []string{"ib_send_bw", "-s", "65536", "-t", "64", "-n", "500", "--report_gbits", "-e"}, 3, false},
	{"WRITE of 64 B, 10^6 messages/s", []string{"ib_write_bw", "-s", "64", "-t", "64", "-n", "10000", "--report_gbits", "-Q", "1"}, 4, false},
	{"WRITE of 8 B, us", []string{"ib_write_lat", "-s", "8", "-n", "2000"}, 4, true},
	{"READ of 8 B, us", []string{"ib_read_lat", "-s", "8", "-n", "2000"}, 4, true},
	{"SEND of 8 B, us", []string{"ib_send_lat", "-s", "8", "-n", "2000"}, 4, true},
	{"SEND of 8 B, us, -e", []string{"ib_send_lat", "-s", "8", "-n", "2000", "-e"}, 4, true},
}

// files are the files of the machines: the library, if one is measured.
func (o rxeOptions) files() (map[string]string, error) {
	if o.library == "" {
		return nil, nil
	}
	path, err := filepath.Abs(filepath.Join(o.library, rxeLibraryFile))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%w: build it with make verbs", err)
	}
	return map[string]string{rxeLibraryDir + "/" + rxeLibraryFile: path}, nil
}

// rxeDevice is a device that programs use: its GID indexes at both ends, and what stands before the command.
type rxeDevice struct {
	name           string
	prefix         []string
	server, client string
}

// programs measures all lines, and prints them.
func (b *rxeBench) programs(ctx context.Context, r *compare.Report) error {
	rxe := rxeDevice{"rxe0", nil, strconv.Itoa(b.route.ServerGID), strconv.Itoa(b.route.ClientGID)}
	runs, err := compare.Turns(ctx, b.rounds,
		compare.Candidate[[]float64]{Name: "rxe", Measure: func(ctx context.Context) ([]float64, error) { return b.perftests(ctx, rxe) }},
		compare.Candidate[[]float64]{Name: "library", Measure: b.withAgents},
	)
	if err != nil {
		return err
	}
	r.Print("perftest in two machines of %d CPUs with Linux %s, MTU %d, path MTU %d, one queue pair, median of %d rounds\n\n",
		b.cpus, b.client.Kernel, b.mtu, b.pmtu, b.rounds)
	t := r.Table("\tRXE\tMIN TO MAX\tLIBRARY\tMIN TO MAX\tBETTER BY\t")
	for i, p := range rxePrograms {
		of := func(candidate int) compare.Series {
			return runs[candidate].Series(func(all []float64) float64 { return all[i] })
		}
		theirs, ours := of(0), of(1)
		ratio := ours.Median() / theirs.Median()
		if p.latency {
			ratio = 1 / ratio
		}
		t.Row("%s\t%.3g\t%s\t%.3g\t%s\t%.2f", p.title, theirs.Median(), theirs.Span("%.3g"), ours.Median(), ours.Span("%.3g"), ratio)
	}
	t.End()
	return nil
}

// withAgents attaches both machines, measures all lines with the library, and detaches them.
func (b *rxeBench) withAgents(ctx context.Context) (all []float64, err error) {
	d := rxeDevice{name: "softroce_" + iface, prefix: []string{"env", "LD_LIBRARY_PATH=" + rxeLibraryDir}}
	for _, vm := range []*rxepeer.VM{b.server, b.client} {
		if _, err := vm.Run(ctx, rxeProduct, "attach", "--nic", iface); err != nil {
			return nil, err
		}
		defer func() {
			_, derr := vm.Run(context.WithoutCancel(ctx), rxeProduct, "detach", iface)
			err = errors.Join(err, derr)
		}()
	}
	for _, end := range []struct {
		vm  *rxepeer.VM
		gid *string
	}{{b.server, &d.server}, {b.client, &d.client}} {
		info, err := end.vm.Run(ctx, append(slices.Clone(d.prefix), "ibv_devinfo", "-v", "-d", d.name)...)
		if err != nil {
			return nil, err
		}
		if *end.gid, err = rxepeer.DevinfoGID(info.Stdout, end.vm.Config.NICs[0].Addrs[0].Addr()); err != nil {
			return nil, err
		}
	}
	return b.perftests(ctx, d)
}

// perftests measures all lines on a device.
func (b *rxeBench) perftests(ctx context.Context, d rxeDevice) (all []float64, err error) {
	for _, p := range rxePrograms {
		argv := slices.Concat(d.prefix, p.argv, []string{"-d", d.name, "-m", strconv.Itoa(b.pmtu), "-u", "17", "-F"})
		out, err := b.server.Exchange(ctx, b.client, rxepeer.Exchange{
			Name: p.title, Ready: rxepeer.Readiness{TCPPort: perftestPort}, Timeout: 2 * time.Minute,
			Server: append(slices.Clone(argv), "-x", d.server),
			Client: append(slices.Clone(argv), "-x", d.client, b.route.Control.String()),
		})
		if err != nil {
			return nil, err
		}
		v, err := rxepeer.PerftestFigure(out.Client.Stdout, p.argv[2], p.column)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.title, err)
		}
		if b.verbose {
			fmt.Fprintf(os.Stderr, "%s %s: %g\n", d.name, p.title, v)
		}
		all = append(all, v)
	}
	return all, nil
}
