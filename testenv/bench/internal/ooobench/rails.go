// SPDX-License-Identifier: Apache-2.0

package ooobench

// `bench rails` measures queue pairs in out-of-order mode (S3) between two hosts that have two attached
// interfaces each: what both interfaces carry, and what the death of one of them costs.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// railsConfig is what the flags say.
type railsConfig struct {
	bin         string
	rates       []float64 // Mbit/s of the two interfaces
	size        int       // bytes of a message
	outstanding int       // messages of a queue pair
	each        time.Duration
	deaths      int
	dead        time.Duration
}

// RailsCommand returns `bench rails`.
func RailsCommand() *cobra.Command {
	var c railsConfig
	cmd := &cobra.Command{
		Use:   "rails",
		Short: "Out-of-order mode over two attached interfaces of each host, one of which dies and comes back",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return compare.Failure(railsRun(cmd.Context(), c)) },
	}
	f := cmd.Flags()
	f.StringVar(&c.bin, "bin", "bin/softroce-xdp", "the product's binary")
	f.Float64SliceVar(&c.rates, "rates", []float64{100, 300}, "Mbit/s at which the two interfaces of a host send at most")
	f.IntVar(&c.size, "size", 16<<10, "bytes of a message")
	f.IntVar(&c.outstanding, "outstanding", 64, "messages of each queue pair that are outstanding at all times")
	f.DurationVar(&c.each, "time", time.Second, "length of a measurement")
	f.IntVar(&c.deaths, "deaths", 5, "times that each interface dies; 0: only the rates are measured")
	f.DurationVar(&c.dead, "dead", 400*time.Millisecond, "for how long an interface is dead")
	return cmd
}

func (c *railsConfig) check() error {
	switch {
	case len(c.rates) != 2 || min(c.rates[0], c.rates[1]) < 1 || max(c.rates[0], c.rates[1]) > 100_000:
		return fmt.Errorf("--rates %v: choose two from 1 to 100000 Mbit/s", c.rates)
	case c.size < 16 || c.size > 1<<20:
		return fmt.Errorf("--size %d: choose 16 to %d bytes", c.size, 1<<20)
	case c.outstanding < 1 || c.outstanding > Slots:
		return fmt.Errorf("--outstanding %d: choose 1 to %d", c.outstanding, Slots)
	case c.each < 10*time.Millisecond || c.deaths < 0 || c.dead < 10*time.Millisecond:
		return errors.New("--time and --dead must be at least 10ms, and --deaths not negative")
	}
	return nil
}

func railsRun(ctx context.Context, c railsConfig) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	if c.bin, err = filepath.Abs(c.bin); err != nil {
		return err
	}
	compare.HostsInProcess()
	rails, closeAll, err := newRails(c)
	defer func() { err = errors.Join(err, closeAll()) }()
	if err != nil {
		return err
	}
	var res results
	for _, n := range []int{1, 4} {
		s, err := measureShares(ctx, rails, c, n)
		if err != nil {
			return fmt.Errorf("%d queue pairs: %w", n, err)
		}
		res.shares = append(res.shares, s)
	}
	for rail := range res.deaths {
		if res.deaths[rail], err = measureDeaths(ctx, rails, c, rail); err != nil {
			return fmt.Errorf("death of interface %d: %w", rail, err)
		}
	}
	r := compare.NewReport(os.Stdout)
	res.report(r, c)
	return r.Err()
}

// newRails makes two hosts. closeAll takes them back, also after an error.
func newRails(c railsConfig) (r *engines.Rails, closeAll func() error, err error) {
	var undo []func() error
	closeAll = func() error {
		var errs []error
		for i := len(undo) - 1; i >= 0; i-- {
			errs = append(errs, undo[i]())
		}
		return errors.Join(errs...)
	}
	dir, err := os.MkdirTemp("", "railsbench-")
	if err != nil {
		return nil, closeAll, err
	}
	undo = append(undo, func() error { return os.RemoveAll(dir) })
	top, err := topo.New(topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	if err != nil {
		return nil, closeAll, err
	}
	undo = append(undo, top.Close)
	flags := func(rail int) []string {
		return []string{"--rate", fmt.Sprint(uint64(c.rates[rail] * 1e6)), "--policy", "mode=fixed"}
	}
	hosts, detach, err := engines.Attach(top, c.bin, dir, flags(0)...)
	undo = append(undo, detach)
	if err != nil {
		return nil, closeAll, err
	}
	r, detach, err = engines.AttachRail(top, hosts, flags(1)...)
	undo = append(undo, detach)
	return r, closeAll, err
}

// dyingOutstanding are the messages outstanding when an interface dies: so few that the rate of the other one
// allows each of them to end within an RTO.
const dyingOutstanding = 4

// begin connects queue pairs and loads them, and waits until both interfaces are in use.
func begin(ctx context.Context, r *engines.Rails, c railsConfig, n, outstanding int) (_ *load, err error) {
	l := &load{}
	for range n {
		p, err := New(r.Hosts, Config{Name: "ooo", OutOfOrder: true, Size: c.size, Rails: []verbs.AddressVector{{Dst: r.Second[0]}, {Dst: r.Second[1]}}})
		if err != nil {
			return nil, errors.Join(err, l.end())
		}
		l.pairs = append(l.pairs, p)
	}
	if err = l.start(ctx, outstanding); err == nil {
		err = inUse(ctx, r, c)
	}
	if err != nil {
		return nil, errors.Join(err, l.end())
	}
	return l, nil
}

// inUse waits until both interfaces send at half of their rates at least.
func inUse(ctx context.Context, r *engines.Rails, c railsConfig) error {
	const look = 100 * time.Millisecond
	return Until(ctx, "both interfaces are in use", func() (bool, error) {
		got, err := frames(r, look)
		return got[0] > c.rates[0]/2 && got[1] > c.rates[1]/2, err
	})
}

// frames returns the Mbit/s of frames that host 0 sends by its interfaces, over a time.
func frames(r *engines.Rails, over time.Duration) (mbit [2]float64, err error) {
	var sent [2][2]engines.Sent
	var at [2]time.Time
	for k := range at {
		if k == 1 {
			time.Sleep(over)
		}
		at[k] = time.Now()
		for rail := range mbit {
			if sent[k][rail], err = r.Sent(rail); err != nil {
				return mbit, err
			}
		}
	}
	for rail := range mbit {
		mbit[rail] = float64(sent[1][rail].Bytes-sent[0][rail].Bytes) * 8 / at[1].Sub(at[0]).Seconds() / 1e6
	}
	return mbit, nil
}

// measureShares measures what both interfaces carry, and each of them while the other one is dead.
func measureShares(ctx context.Context, r *engines.Rails, c railsConfig, n int) (s shares, err error) {
	l, err := begin(ctx, r, c, n, c.outstanding)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, l.end()) }()
	s.pairs = n
	const settle = 300 * time.Millisecond
	for alone := range s.alone {
		if err := r.Cut(1-alone, true); err != nil {
			return s, err
		}
		time.Sleep(settle)
		s.alone[alone], err = carried(r, l, c)
		if err := errors.Join(err, r.Cut(1-alone, false)); err != nil {
			return s, err
		}
		if err := inUse(ctx, r, c); err != nil {
			return s, err
		}
	}
	time.Sleep(settle)
	before := lost(r)
	s.both, err = carried(r, l, c)
	s.resent = lost(r) - before
	return s, err
}

// carried is one measurement.
func carried(r *engines.Rails, l *load, c railsConfig) (got carrier, err error) {
	start, before := time.Now(), l.count()
	if got.frames, err = frames(r, c.each); err != nil {
		return got, err
	}
	got.payload = float64((l.count()-before)*c.size) * 8 / time.Since(start).Seconds() / 1e6
	return got, nil
}

// lost is how many packets host 0 has sent again because it found them lost.
func lost(r *engines.Rails) (n uint64) {
	for _, c := range r.Hosts[0].Dev.Counters() {
		switch c.Name {
		case "ooo_resent":
			n += c.Value
		case "ooo_probes":
			n -= c.Value
		}
	}
	return n
}

// measureDeaths has an interface die and come back several times, with messages in flight.
func measureDeaths(ctx context.Context, r *engines.Rails, c railsConfig, rail int) (d deaths, err error) {
	if c.deaths == 0 {
		return d, nil
	}
	l, err := begin(ctx, r, c, 1, dyingOutstanding)
	if err != nil {
		return d, err
	}
	defer func() {
		err = errors.Join(err, l.end())
		d.posted, d.notified = l.posted, l.notified
	}()
	for range c.deaths {
		rto, err := l.pairs[0].QP[0].(*nic.QP).RTO()
		if err != nil {
			return d, err
		}
		before, from := lost(r), time.Now()
		if err := r.Cut(rail, true); err != nil {
			return d, err
		}
		time.Sleep(c.dead)
		gap, slowest := l.longest(from, time.Now())
		d.resent = append(d.resent, float64(lost(r)-before))
		if err := r.Cut(rail, false); err != nil {
			return d, err
		}
		d.rto, d.gap, d.slowest = append(d.rto, rto.Seconds()*1e3), append(d.gap, gap.Seconds()*1e3), append(d.slowest, slowest.Seconds()*1e3)
		if err := inUse(ctx, r, c); err != nil {
			return d, err
		}
	}
	return d, nil
}
