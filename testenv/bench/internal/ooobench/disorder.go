// SPDX-License-Identifier: Apache-2.0

package ooobench

// `bench disorder` compares out-of-order mode (S3) with RC of the same engine, with SACK and without,
// between engines on attached interfaces, over a middle box that loses and delays packets. All send at the
// same rate. `bench order` does the same on a virtual wire.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
)

// disorderConfig is what the flags say.
type disorderConfig struct {
	bin       string
	rate      float64 // Mbit/s
	size      int     // bytes of a message
	each      time.Duration
	rounds    int
	delay     time.Duration
	losses    []float64 // percent
	reorders  []float64 // percent
	direct    bool
	fullSpeed bool
	profile   string
}

const (
	etherLen = 14
	burst    = 4000 // us that a pacer lets out at once after a pause
)

// disorderOutstanding is how many messages are outstanding at all times, for goodput.
const disorderOutstanding = 32

// disorderLoads are the shares of the rate that messages have as payload, in the runs in which they come at random
// times. The first one stands for as many messages as keep outstanding of them.
var disorderLoads = [...]float64{0, 0.4, 0.8}

// DisorderCommand returns `bench disorder`.
func DisorderCommand() *cobra.Command {
	var c disorderConfig
	cmd := &cobra.Command{
		Use:   "disorder",
		Short: "Out-of-order mode compared with RC between attached interfaces, with loss and reordering",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return compare.Failure(disorderCompare(cmd.Context(), c)) },
	}
	f := cmd.Flags()
	f.StringVar(&c.bin, "bin", "bin/softroce-xdp", "the product's binary")
	f.Float64Var(&c.rate, "rate", 200, "Mbit/s at which both hosts send at most")
	f.IntVar(&c.size, "size", 16<<10, "bytes of a message")
	f.DurationVar(&c.each, "time", time.Second, "length of a measurement")
	f.IntVar(&c.rounds, "rounds", 1, "times that each contender is measured, in turns; the median counts")
	f.DurationVar(&c.delay, "delay", time.Millisecond, "up to which packets are delayed that others overtake")
	f.Float64SliceVar(&c.losses, "loss", []float64{0, 0.1, 1, 5}, "percent of the packets that are lost")
	f.Float64SliceVar(&c.reorders, "reorder", []float64{0, 10, 50}, "percent of the packets that are delayed")
	f.BoolVar(&c.direct, "direct", false, "without the middle box: no loss and no reordering")
	f.BoolVar(&c.fullSpeed, "full-load", false, "only the runs with messages outstanding at all times")
	f.StringVar(&c.profile, "cpuprofile", "", "write a profile of the process there")
	return cmd
}

func (c *disorderConfig) check() error {
	switch {
	case c.rate < 1 || c.rate > 100_000:
		return fmt.Errorf("--rate %g: choose 1 to 100000 Mbit/s", c.rate)
	case c.size < 16 || c.size > 1<<20:
		return fmt.Errorf("--size %d: choose 16 to %d bytes", c.size, 1<<20)
	case c.each < 10*time.Millisecond || c.rounds < 1 || c.delay < 0:
		return errors.New("--time must be at least 10ms, --rounds 1, and --delay not negative")
	}
	for _, v := range append(append([]float64{}, c.losses...), c.reorders...) {
		if v < 0 || v > 90 {
			return fmt.Errorf("--loss and --reorder: %g percent: choose 0 to 90", v)
		}
	}
	if c.direct {
		c.losses, c.reorders = []float64{0}, []float64{0}
	}
	return nil
}

func disorderCompare(ctx context.Context, c disorderConfig) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	if c.bin, err = filepath.Abs(c.bin); err != nil {
		return err
	}
	compare.HostsInProcess()
	n, err := newNetwork(c, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	stop, err := compare.Profile(c.profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	report := compare.NewReport(os.Stdout)
	var rows []disorderRow
	for _, loss := range c.losses {
		for _, reorder := range c.reorders {
			r := disorderRow{loss: loss, reorder: reorder}
			r.three(c)
			if err := r.measure(ctx, n, c); err != nil {
				disorderReport(report, c, rows) // of the cells before
				return fmt.Errorf("loss %g %%, reordering %g %%: %w", loss, reorder, err)
			}
			rows = append(rows, r)
		}
	}
	disorderReport(report, c, rows)
	return report.Err()
}

// disorderRow is one cell of the comparison, with the rounds of each contender.
type disorderRow struct {
	loss, reorder float64 // percent
	of            [disorderContenders]rounds
	least         [len(disorderLoads)]float64 // 99th percentile of three trips in us; 0 at full load
}

// rounds are the runs of a contender.
type rounds compare.Runs[round]

// round is one run of each load.
type round struct {
	byLoad [len(disorderLoads)]*result // Nil if the load is not measured, or the run failed.
	failed string                      // reason why the run could not go on, or ""
}

// three fills in the least times of three trips, for messages that are posted when those of the runs are. A trip
// takes nothing, and a packet has no stamp: it takes longer between two hosts.
func (r *disorderRow) three(c disorderConfig) {
	packets := max(1, (c.size+PMTU.Bytes()-1)/PMTU.Bytes())
	w := Wire{
		Rate: c.rate * 1e6, Burst: burst, Loss: r.loss / 100, Delayed: r.reorder / 100, Late: float64(c.delay) / 1e3,
		Packets: packets, PacketBytes: c.size/packets + etherLen + ooo.Overhead(false), MessageBytes: c.size,
	}
	for i, load := range disorderLoads {
		if load == 0 || c.fullSpeed {
			continue
		}
		var p99 compare.Series
		for round := range c.rounds {
			n := int(c.each / c.interval(load))
			p99 = append(p99, quantile(w.Times(arrivals(uint64(round)), rand.New(rand.NewPCG(uint64(round), 2)), n, load), .99)*1e3)
		}
		r.least[i] = p99.Median()
	}
}

// measure measures all contenders, in turns.
func (r *disorderRow) measure(ctx context.Context, n *network, c disorderConfig) error {
	spec := faults.Spec{Loss: r.loss / 100, Delayed: r.reorder / 100, Delay: c.delay}
	var all []compare.Candidate[round]
	for _, who := range disorderContend {
		seed := uint64(0) // of the first round
		all = append(all, compare.Candidate[round]{Name: who.name, Measure: func(ctx context.Context) (round, error) {
			seed++
			return onceEachLoad(ctx, n, c, who, spec, seed-1)
		}})
	}
	runs, err := compare.Turns(ctx, c.rounds, all...)
	for i := range runs {
		r.of[i] = rounds(runs[i])
	}
	return err
}

// onceEachLoad measures a contender once.
func onceEachLoad(ctx context.Context, n *network, c disorderConfig, who disorderContender, spec faults.Spec, seed uint64) (o round, err error) {
	for i, load := range disorderLoads {
		t := traffic{outstanding: disorderOutstanding, length: c.each}
		if load > 0 {
			if c.fullSpeed {
				break
			}
			t.interval = c.interval(load)
		}
		r, err := once(ctx, n, who, spec, t, c.size, seed)
		if errors.Is(err, ErrStatus) { // the queue pair has ended
			o.failed = err.Error()
			continue
		}
		if err != nil {
			return o, err
		}
		o.byLoad[i] = r
	}
	return o, nil
}

// interval is the mean time between two messages at a load.
func (c *disorderConfig) interval(load float64) time.Duration {
	return time.Duration(float64(c.size) * 8 / (load * c.rate * 1e6) * 1e9)
}

// arrivals is asked for the pauses between the messages of a run.
func arrivals(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// once is one run, with queue pairs of its own: messages of a run before it may still be on their way.
func once(ctx context.Context, n *network, who disorderContender, spec faults.Spec, t traffic, size int, seed uint64) (_ *result, err error) {
	n.set(faults.Spec{})
	p, err := connect(ctx, n, who, size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	n.set(spec)
	before := n.packets()
	r, err := disorderMeasure(ctx, p, t, seed)
	if err != nil {
		return nil, err
	}
	r.wire = n.packets() - before
	return r, nil
}
