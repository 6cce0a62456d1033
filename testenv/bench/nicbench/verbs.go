// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Targets of programs in C, compared with `softroce-xdp perf` on private memory.
var (
	verbsTarget        = compare.AtLeast(0.90, "%.2f") // share of the rate
	verbsLatencyTarget = compare.AtMost(4, "%.1f")     // us more
)

// verbsMargin is how many seconds a run begins before what is measured of it.
const verbsMargin = 1

// verbsRow is one figure, measured by a command of perftest and by perf.
type verbsRow struct {
	title    string
	perftest []string // command and flags, without device, address and duration
	perf     []string // operation and flags, without address and duration
	figure   func(*perfResult) float64
	column   int     // column of the line of perftest that has the figure
	scale    float64 // factor from its unit to perf's
	kind     verbsKind
}

// verbsKind is how a figure is compared, and whether it has a target.
type verbsKind uint8

const (
	verbsRate    verbsKind = iota // as a share, with a target
	verbsCount                    // as a share
	verbsLatency                  // as a difference in us, with a target
)

var verbsRows = []verbsRow{
	{
		"WRITE of 64 KB, Gbit/s",
		[]string{"ib_write_bw", "-s", "65536", "-t", "128", "--report_gbits"},
		[]string{"write", "--size", "64K", "--depth", "128"},
		gbits, 3, 1, verbsRate,
	},
	{
		"READ of 64 KB, Gbit/s",
		[]string{"ib_read_bw", "-s", "65536", "-t", "128", "--report_gbits"},
		[]string{"read", "--size", "64K", "--depth", "128"},
		gbits, 3, 1, verbsRate,
	},
	{
		"WRITE of 8 B, us",
		[]string{"ib_write_lat", "-s", "8"},
		[]string{"write", "--size", "8", "--latency"},
		microseconds, 4, 1, verbsLatency,
	},
	{
		"READ of 8 B, us",
		[]string{"ib_read_lat", "-s", "8"},
		[]string{"read", "--size", "8", "--latency"},
		microseconds, 4, 1, verbsLatency,
	},
	{
		"WRITE of 64 B, 1 queue pair, 1000 messages/s",
		[]string{"ib_write_bw", "-s", "64", "-t", "128", "-Q", "1", "-q", "1"},
		[]string{"write", "--size", "64", "--depth", "128"},
		thousands, 4, 1e3, verbsCount,
	},
	{
		"WRITE of 64 B, 16 queue pairs, 1000 messages/s",
		[]string{"ib_write_bw", "-s", "64", "-t", "128", "-Q", "1", "-q", "16"},
		[]string{"write", "--size", "64", "--depth", "128", "--qps", "16"},
		thousands, 4, 1e3, verbsCount,
	},
}

// perfResult is what is read of the output of perf.
type perfResult struct {
	BitsPerSecond     float64 `json:"bits_per_second"`
	MessagesPerSecond float64 `json:"messages_per_second"`
	Latency           struct {
		P50 float64 `json:"p50_ns"`
	} `json:"latency"`
}

func gbits(r *perfResult) float64        { return r.BitsPerSecond / 1e9 }
func thousands(r *perfResult) float64    { return r.MessagesPerSecond / 1e3 }
func microseconds(r *perfResult) float64 { return r.Latency.P50 / 1e3 }

// verbsPrograms compares programs of perftest, which use the library of rocev2/clib, with `softroce-xdp perf`.
func verbsPrograms(ctx context.Context, w *world, c config, r *compare.Report) error {
	library, err := filepath.Abs(c.library)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(library, "libibverbs.so.1")); err != nil {
		return fmt.Errorf("%w: build it with make verbs", err)
	}
	seconds := max(1, int(c.each/time.Second))
	return w.withServers(func() error {
		x := &verbsWorld{w: w, library: library, seconds: seconds}
		if err := x.findGIDs(ctx); err != nil {
			return err
		}
		t := r.Titled("Programs of perftest, and perf",
			"\tPERFTEST\tPERF, PRIVATE MEMORY\tSHARE OR DIFFERENCE\tTARGET\t\tPERF, ARENA\tSHARE OR DIFFERENCE\t")
		for _, row := range verbsRows {
			if err := x.row(ctx, t, row, c.rounds); err != nil {
				return fmt.Errorf("%s: %w", row.title, err)
			}
		}
		t.End(
			"Each candidate has a process on either host, in addition to the agents of both. Private memory is copied by the agent,",
			"as that of programs in C is; an arena is shared with it. Latencies are medians. perf and ib_read_lat measure from work",
			"request to completion. ib_write_lat sees a WRITE in memory and answers it by another one: this is half of the time of both.",
			"Programs of perftest poll all the time, and perf sleeps when it has polled in vain.",
		)
		return nil
	})
}

func (x *verbsWorld) row(ctx context.Context, t *compare.Table, row verbsRow, rounds int) error {
	perf := func(name string, flags ...string) compare.Candidate[float64] {
		return compare.Candidate[float64]{Name: name, Measure: func(ctx context.Context) (float64, error) {
			r, err := x.perf(ctx, append(slices.Clone(row.perf), flags...))
			return row.figure(&r), err
		}}
	}
	runs, err := compare.Turns(ctx, rounds,
		compare.Candidate[float64]{Name: row.perftest[0], Measure: func(ctx context.Context) (float64, error) { return x.perftest(ctx, row) }},
		perf("perf --private-memory", "--private-memory"), perf("perf"),
	)
	if err != nil {
		return err
	}
	own, private, arena := compare.Series(runs[0]), compare.Series(runs[1]), compare.Series(runs[2])
	against, target := own.Over, compare.None
	switch row.kind {
	case verbsRate:
		target = t.Median(verbsTarget, own.Over(private))
	case verbsLatency:
		against, target = own.Minus, t.Median(verbsLatencyTarget, own.Minus(private))
	}
	t.Row("%s\t%.2f\t%.2f\t%.2f\t%s\t%.2f\t%.2f", row.title, own.Median(), private.Median(), against(private).Median(), target,
		arena.Median(), against(arena).Median())
	return nil
}

// verbsWorld runs programs on both hosts.
type verbsWorld struct {
	w       *world
	library string
	seconds int
	gids    [2]string // indexes of the GIDs of the cable's addresses
}

// run makes a command on a host that uses the library.
func (x *verbsWorld) run(ctx context.Context, host int, argv ...string) *topo.Cmd {
	h := x.w.top.Host(host + 1)
	return h.CommandContext(ctx, x.w.bin, append([]string{"run", "--run-dir", x.w.options(h).RunDir, "--library", x.library, "--"}, argv...)...)
}

func (x *verbsWorld) findGIDs(ctx context.Context) error {
	for i := range x.gids {
		out, err := x.run(ctx, i, "ibv_devinfo", "-v").CombinedOutput()
		if err != nil {
			return fmt.Errorf("ibv_devinfo: %w: install ibverbs-utils and perftest\n%s", err, out)
		}
		if x.gids[i], err = rxepeer.DevinfoGID(string(out), x.w.addrs[i]); err != nil {
			return err
		}
	}
	return nil
}

// perftest returns the figure of a program, whose server runs on the second host.
func (x *verbsWorld) perftest(ctx context.Context, row verbsRow) (float64, error) {
	command := func(host int, more ...string) *topo.Cmd {
		argv := append(slices.Clone(row.perftest), "-d", "softroce_"+cableName, "-x", x.gids[host], "-F", "-u", "16") // the timeout of perf
		if row.kind == verbsLatency {
			argv = append(argv, "-n", "20000")
		} else {
			argv = append(argv, "-f", strconv.Itoa(verbsMargin), "-D", strconv.Itoa(x.seconds+2*verbsMargin))
		}
		return x.run(ctx, host, append(argv, more...)...)
	}
	out, err := x.withServer(ctx, command(1), 18515, command(0, x.w.addrs[1].String()))
	if err != nil {
		return 0, err
	}
	v, err := rxepeer.PerftestFigure(string(out), row.perftest[2], row.column) // the size is behind -s
	return v * row.scale, err
}

// perf returns the result of a run of softroce-xdp perf, whose server runs on the second host.
func (x *verbsWorld) perf(ctx context.Context, args []string) (r perfResult, err error) {
	command := func(host int, args ...string) *topo.Cmd {
		h := x.w.top.Host(host + 1)
		return h.CommandContext(ctx, x.w.bin, append([]string{"perf", "--run-dir", x.w.options(h).RunDir}, args...)...)
	}
	client := append(args, "--duration", fmt.Sprintf("%ds", x.seconds), "--warmup", fmt.Sprintf("%ds", verbsMargin), "--json", "--quiet",
		x.w.addrs[1].String())
	out, err := x.withServer(ctx, command(1, "server"), 18516, command(0, client...))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// withServer returns the output of a client, and ends its server, which listens on a TCP port.
func (x *verbsWorld) withServer(ctx context.Context, server *topo.Cmd, port int, client *topo.Cmd) (out []byte, err error) {
	var said strings.Builder
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = server.Process.Kill() // The server may have ended.
		_ = server.Wait()
		if err != nil {
			err = fmt.Errorf("%w\nserver: %s", err, said.String())
		}
	}()
	if err := listens(ctx, server.Process.Pid, port); err != nil {
		return nil, err
	}
	if out, err = client.Output(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(client.Args, " "), err, out)
	}
	return out, nil
}

// listens waits until something listens on a TCP port in the namespace of a process.
func listens(ctx context.Context, pid, port int) error {
	for range 1000 {
		for _, f := range []string{"tcp", "tcp6"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, f))
			if err != nil {
				return fmt.Errorf("the server has ended: %w", err)
			}
			if rxepeer.Listens(b, port) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return errors.New("the server does not listen")
}
