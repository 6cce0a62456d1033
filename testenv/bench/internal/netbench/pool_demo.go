// SPDX-License-Identifier: Apache-2.0

package netbench

// `bench pooldemo` shows the memory pool at work: a server, a node with a map that is larger than
// its local memory, and a node whose demand goes up and down. It needs root and leaves nothing
// behind. `make pool-demo` builds all it needs and runs it.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// Of the demonstration, in bytes.
const (
	poolSize  = 64 << 20
	slabSize  = 256 << 10
	mapSize   = 24 << 20
	localSize = 8 << 20
	period    = 100 * time.Millisecond
)

// checked is what `softroce-pool map` prints of content that is right.
const checked = "as it was written"

// poolDemo is a run.
type poolDemo struct {
	bin    string
	length time.Duration
	out    io.Writer
}

// PoolDemoCommand is the subcommand of bench.
func PoolDemoCommand() *cobra.Command {
	d := poolDemo{out: os.Stdout}
	var seconds int
	cmd := &cobra.Command{
		Use:   "pooldemo",
		Short: "Show a memory pool of a server and two nodes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.length = time.Duration(seconds) * time.Second
			return compare.Failure(d.run(cmd.Context()))
		},
	}
	cmd.Flags().StringVar(&d.bin, "bin", "bin/softroce-xdp", "the product's binary")
	cmd.Flags().IntVar(&seconds, "seconds", 20, "how long the demand of the second node goes up and down")
	return cmd
}

func (d *poolDemo) run(ctx context.Context) (err error) {
	d.step("Three hosts: h1 lends %d MiB, h2 and h3 are its nodes. Their periods have %v.", poolSize>>20, period)
	l, err := newPoolLab(d.bin, 3)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.Serve(ctx, "--bytes", fmt.Sprint(poolSize), "--slab", fmt.Sprint(slabSize)); err != nil {
		return err
	}

	d.step("h2: a byte slice of %d MiB, of which %d MiB are local. It asks for space when it needs some.", mapSize>>20, localSize>>20)
	d.step("h3: a node whose demand goes up and down between %d and %d MiB.", waveLow>>20, waveHigh>>20)
	running, stop := context.WithCancel(ctx)
	defer stop()
	var table printed
	maps := l.Pool(running, l.Host(2), "map", l.Address(), "--name", "map", "--period", period.String(), "--bytes", fmt.Sprint(mapSize),
		"--local", fmt.Sprint(localSize), "--accesses", "2000", "--grow", "--deadline", "1m", "--count", "1000000")
	maps.Stdout, maps.Stderr = &table, &table
	if err := maps.Start(); err != nil {
		return err
	}
	w, err := startWave(ctx, l)
	if err != nil {
		return err
	}
	follow, err := d.watch(running, l, w)
	if err == nil {
		err = table.wait(running, checked)
	}
	err = errors.Join(err, w.end(), maps.Process.Signal(os.Interrupt), maps.Wait())
	if err != nil {
		return fmt.Errorf("%w\n%s", err, &table)
	}

	d.step("What h2's command has printed: each page came back as it was written.")
	lines := strings.Split(strings.TrimSpace(table.String()), "\n")
	fmt.Fprintln(d.out, indent([]byte(strings.Join(lines[:min(len(lines), 6)], "\n"))))
	d.step("How the pool was divided.")
	fmt.Fprintln(d.out, follow)
	return follow.verdict()
}

func (d *poolDemo) step(format string, args ...any) {
	fmt.Fprintf(d.out, "\n--- "+format+"\n", args...)
}

// watch prints the division of the pool every second, and returns what it saw.
func (d *poolDemo) watch(ctx context.Context, l *poolLab, w *wave) (f follow, err error) {
	fmt.Fprintf(d.out, "\n  %4s  %28s  %28s\n", "", "map (h2)", "wave (h3)")
	fmt.Fprintf(d.out, "  %4s  %8s %8s %-10s  %8s %8s %-10s  %s\n", "s", "DEMAND", "LEASED", "BY", "DEMAND", "LEASED", "BY", "FREE")
	start := time.Now()
	for tick := range int(d.length / time.Second) {
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(time.Until(start.Add(time.Duration(tick+1) * time.Second))):
		}
		if err := w.err(); err != nil {
			return f, err
		}
		s, err := l.Status(ctx, 2)
		if err != nil {
			return f, err
		}
		f.add(s)
		m, v := find(s, "map"), find(s, waveName)
		fmt.Fprintf(d.out, "  %4d  %8s %8s %-10s  %8s %8s %-10s  %s\n", tick+1, mib(m.Demand), mib(leased(s, m)), m.Expected.By,
			mib(v.Demand), mib(leased(s, v)), v.Expected.By, mib(uint64(s.Free)*s.SlabBytes))
	}
	return f, nil
}

func mib(bytes uint64) string { return fmt.Sprintf("%.1fM", float64(bytes)/(1<<20)) }

// find returns a node, or none of its name.
func find(s lease.Status, name string) lease.NodeStatus {
	for _, n := range s.Nodes {
		if n.Name == name {
			return n
		}
	}
	return lease.NodeStatus{}
}

// leased is what a node has and need not return.
func leased(s lease.Status, n lease.NodeStatus) uint64 {
	return uint64(n.Slabs-n.Returning) * s.SlabBytes
}
