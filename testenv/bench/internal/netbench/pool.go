// SPDX-License-Identifier: Apache-2.0

package netbench

// `bench pool` compares memory of a pool (package mempool/vmm) with memory that the kernel
// swaps to a file, and with memory that is all local: the same work (package mempool/vmm/exercise)
// in one run. It needs root, and about twice the memory of --bytes.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/mempool/vmm/exercise"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// poolBench is a run.
type poolBench struct {
	bin      string
	megs     int64 // size of the memory, MiB
	accesses int
	swapDir  string
	each     time.Duration // duration of the measurements of READ
}

// PoolCommand is the subcommand of bench.
func PoolCommand() *cobra.Command {
	b := poolBench{}
	cmd := &cobra.Command{
		Use:   "pool",
		Short: "Compare memory of a pool with swap to a file and with local memory",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return compare.Failure(b.run(cmd.Context()))
		},
	}
	f := cmd.Flags()
	f.StringVar(&b.bin, "bin", "bin/softroce-xdp", "the product's binary")
	f.Int64Var(&b.megs, "megabytes", 4096, "memory of the program, in MiB")
	f.IntVar(&b.accesses, "accesses", 100000, "random accesses")
	f.StringVar(&b.swapDir, "swap-dir", ".", "directory of the swap file, which is as large as the memory")
	f.DurationVar(&b.each, "time", 3*time.Second, "length of a measurement of READ")
	return cmd
}

// check refuses what cannot be measured.
func (b *poolBench) check() error {
	if b.megs < 64 {
		return fmt.Errorf("--megabytes %d: choose at least 64", b.megs)
	}
	var s unix.Sysinfo_t
	if err := unix.Sysinfo(&s); err != nil {
		return err
	}
	if free := int64(s.Freeram) * int64(s.Unit) >> 20; free < 2*b.megs {
		return fmt.Errorf("--megabytes %d: %d MiB of memory are free here; choose at most half of it", b.megs, free)
	}
	return nil
}

// poolRow is one kind of memory.
type poolRow struct {
	name  string
	local int64 // MiB
	exercise.Result

	read   exercise.Times // times of one READ of 4 KB at a time, measured just before a map
	stream float64        // goodput of READs of 64 KB, bit/s
}

func (b *poolBench) run(ctx context.Context) (err error) {
	if err := b.check(); err != nil {
		return err
	}
	l, err := newPoolLab(b.bin, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	r := poolReport{megs: b.megs}
	if err := l.Serve(ctx, "--bytes", fmt.Sprintf("%dM", b.megs+64)); err != nil {
		return err
	}
	if r.all, err = b.local(ctx); err != nil {
		return fmt.Errorf("all local: %w", err)
	}
	for _, part := range []int64{2, 4} {
		m, err := b.pool(ctx, l, b.megs/part)
		if err != nil {
			return fmt.Errorf("pool, 1/%d local: %w", part, err)
		}
		r.maps = append(r.maps, m)
		s, err := b.swapped(ctx, b.megs/part)
		if err != nil {
			return fmt.Errorf("swap, 1/%d local: %w", part, err)
		}
		r.swaps = append(r.swaps, s)
	}
	out := compare.NewReport(os.Stdout)
	r.print(out)
	return out.Err()
}

// latency and goodput of `softroce-xdp perf read`.
type perfResult struct {
	Bps     float64 `json:"bits_per_second"`
	Latency *exercise.Times
}

// reads measures one READ of 4 KB at a time, and the goodput of READs, next to what they are compared with: what
// else the machine does slows both.
func (b *poolBench) reads(ctx context.Context, l *poolLab) (one exercise.Times, bps float64, err error) {
	serving, stop := context.WithCancel(ctx)
	server := l.Command(serving, l.Host(1), "perf", "server")
	if err := server.Start(); err != nil {
		stop()
		return one, 0, err
	}
	defer func() { stop(); _ = server.Wait() }()
	time.Sleep(time.Second) // until it listens; the client says if it does not
	perf := func(args ...string) (r perfResult, err error) {
		out, err := l.Command(ctx, l.Host(2), append([]string{"perf", "read", l.Address(), "--json", "--quiet", "--duration", b.each.String()}, args...)...).Output()
		if err != nil {
			return r, fmt.Errorf("perf read: %w", err)
		}
		return r, json.Unmarshal(out, &r)
	}
	r, err := perf("--size", "4K", "--latency")
	if err != nil {
		return one, 0, err
	}
	if r.Latency == nil {
		return one, 0, errors.New("perf read has reported no latency")
	}
	g, err := perf("--size", "64K")
	return *r.Latency, g.Bps, err
}

// pool does the work on a map.
func (b *poolBench) pool(ctx context.Context, l *poolLab, local int64) (x poolRow, err error) {
	x.name, x.local = "pool", local
	if x.read, x.stream, err = b.reads(ctx, l); err != nil {
		return x, err
	}
	out, err := l.Pool(ctx, l.Host(2), "map", l.Address(), "--name", "bench", "--json", "--bytes", fmt.Sprintf("%dM", b.megs),
		"--local", fmt.Sprintf("%dM", local), "--accesses", fmt.Sprint(b.accesses), "--seed", fmt.Sprint(poolSeed)).Output()
	if err != nil {
		return x, err
	}
	for line := range strings.Lines(string(out)) {
		var s exercise.Step
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			return x, err
		}
		x.Steps = append(x.Steps, s)
	}
	return x, nil
}
