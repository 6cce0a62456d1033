// SPDX-License-Identifier: Apache-2.0

// Package nicbench holds the NIC's engine (S2) against what it is built on: raw AF_XDP over
// the same veth pair, in the same run, taking turns. It prints goodput, latency,
// message rate, the cost of many queue pairs, allocations and the efficiency under
// loss. Sections device and processes compare the device that an agent serves with an engine in
// the process, and several client processes with each other; section verbs compares programs of libibverbs
// with `softroce-xdp perf`.
package nicbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// config is what the flags say.
type config struct {
	bin     string
	library string
	rounds  int
	each    time.Duration
	only    []string
	match   string
}

// section is one table of the report.
type section struct {
	name  string
	run   func(context.Context, *world, config, *compare.Report) error
	asked bool // whether it runs only if --only names it, because it needs other programs
}

var sections = []section{
	{name: "goodput", run: goodput},
	{name: "seal", run: sealed},
	{name: "latency", run: latency},
	{name: "rate", run: messageRate},
	{name: "qps", run: manyQPs},
	{name: "many", run: busyQPs},
	{name: "allocs", run: allocations},
	{name: "loss", run: underLoss},
	{name: "device", run: throughDevice},
	{name: "processes", run: processes},
	{name: "verbs", run: verbsPrograms, asked: true},
}

// Command is the subcommand of bench.
func Command() *cobra.Command {
	var c config
	var profile string
	cmd := &cobra.Command{
		Use:   "nic",
		Short: "Compare the engine with raw AF_XDP and TCP, and the device of an agent with the engine",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return compare.Failure(run(cmd.Context(), c, profile))
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.bin, "bin", "bin/softroce-xdp", "the product's binary")
	f.StringVar(&c.library, "library", "bin/verbs", "directory of libibverbs.so.1, for section verbs")
	f.IntVar(&c.rounds, "rounds", 5, "times that each candidate is measured; the median counts")
	f.DurationVar(&c.each, "time", 300*time.Millisecond, "length of a measurement")
	f.StringSliceVar(&c.only, "only", nil, "sections: goodput, seal, latency, rate, qps, many, allocs, loss, device, processes (default: all of these), verbs")
	f.StringVar(&c.match, "match", "", "only rows of the goodput table, and of hostile processes, whose name has this in it")
	f.StringVar(&profile, "cpuprofile", "", "write a profile of the process there")
	return cmd
}

func run(ctx context.Context, c config, profile string) (err error) {
	if c.rounds < 1 || c.each < 10*time.Millisecond {
		return errors.New("--rounds must be at least 1, --time at least 10ms")
	}
	for _, name := range c.only {
		if !slices.ContainsFunc(sections, func(s section) bool { return s.name == name }) {
			return fmt.Errorf("--only %s: choose goodput, seal, latency, rate, qps, many, allocs, loss, device, processes or verbs", name)
		}
	}
	if c.bin, err = filepath.Abs(c.bin); err != nil {
		return err
	}
	compare.HostsInProcess()
	w, err := newWorld(c.bin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	stop, err := compare.Profile(profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	r := compare.NewReport(os.Stdout)
	for _, s := range sections {
		if !slices.Contains(c.only, s.name) && (len(c.only) != 0 || s.asked) {
			continue
		}
		if err := s.run(ctx, w, c, r); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return r.Err()
}
