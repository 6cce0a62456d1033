// SPDX-License-Identifier: Apache-2.0

// Nicbench holds the NIC's engine (S2) against what it is built on: raw AF_XDP over
// the same veth pair, in the same run, taking turns. It prints goodput, latency,
// message rate, the cost of many queue pairs, allocations and the efficiency under
// loss, and exits with 1 if a target is missed. Needs root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// config is what the flags say.
type config struct {
	bin    string
	rounds int
	each   time.Duration
	only   map[string]bool
	match  string
}

// section is one table of the report.
type section struct {
	name string
	run  func(context.Context, *world, config, *report) error
}

var sections = []section{
	{"goodput", goodput},
	{"latency", latency},
	{"rate", messageRate},
	{"qps", manyQPs},
	{"crowd", busyQPs},
	{"allocs", allocations},
	{"loss", loss},
}

func main() {
	c := config{only: map[string]bool{}}
	flag.StringVar(&c.bin, "bin", "bin/softroce-xdp", "the product's binary")
	flag.IntVar(&c.rounds, "rounds", 5, "times that each candidate is measured; the median counts")
	flag.DurationVar(&c.each, "time", 300*time.Millisecond, "length of a measurement")
	only := flag.String("only", "", "sections, comma separated: goodput, latency, rate, qps, crowd, allocs, loss")
	flag.StringVar(&c.match, "match", "", "only rows of the goodput table whose name has this in it")
	profile := flag.String("cpuprofile", "", "write a profile of the process there")
	flag.Parse()
	for s := range strings.SplitSeq(*only, ",") {
		if s != "" {
			c.only[s] = true
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	ok, err := run(ctx, c, *profile)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "nicbench:", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

func run(ctx context.Context, c config, profile string) (ok bool, err error) {
	if c.rounds < 1 || c.each < 10*time.Millisecond {
		return false, errors.New("-rounds must be at least 1, -time at least 10ms")
	}
	for name := range c.only {
		known := false
		for _, s := range sections {
			known = known || s.name == name
		}
		if !known {
			return false, fmt.Errorf("-only %s: choose goodput, latency, rate, qps, crowd, allocs or loss", name)
		}
	}
	if c.bin, err = filepath.Abs(c.bin); err != nil {
		return false, err
	}
	// Both hosts and what drives them live in this process, and threads of theirs
	// spend time in system calls.
	runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0)))
	w, err := newWorld(c.bin)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return false, err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return false, err
		}
		defer f.Close()
		defer pprof.StopCPUProfile()
	}
	r := &report{out: os.Stdout, ok: true}
	for _, s := range sections {
		if len(c.only) != 0 && !c.only[s.name] {
			continue
		}
		if err := s.run(ctx, w, c, r); err != nil {
			return false, fmt.Errorf("%s: %w", s.name, err)
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
	return r.ok, nil
}
