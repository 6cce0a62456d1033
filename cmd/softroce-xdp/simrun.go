// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cc/report"
	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/view"
)

// simRun are the flags of sim run.
type simRun struct {
	schemes []string
	seeds   []uint
	json    bool
	check   bool
	csv     string
	plots   string
	jobs    uint32
}

func newSimRun() *cobra.Command {
	r := simRun{jobs: uint32(min(runtime.NumCPU(), maxSimJobs))}
	cmd := &cobra.Command{
		Use:   "run SCENARIO...",
		Short: "Run scenarios with several schemes and compare them",
		Long: `Run simulates each scenario (a YAML file or a name of ` + "`sim list`" + `) with every scheme
and seed, and prints a table: the worst value over the seeds of each figure that has a
criterion, the median of the others. What misses its criterion is marked with "!".`,
		Example: `  softroce-xdp sim run incast-8
  softroce-xdp sim run late-joiner --scheme fourcase,dcqcn --plot out
  softroce-xdp sim run mine.yaml --seed 1,2,3,4 --csv mine.csv`,
		Args:              takes(1, many),
		ValidArgsFunction: completeSim,
		RunE:              r.run,
	}
	f := cmd.Flags()
	f.StringSliceVar(&r.schemes, "scheme", nil, "only these, by name or by label in the scenario (default: the scenario's, or all)")
	f.UintSliceVar(&r.seeds, "seed", nil, "these seeds and not the scenario's")
	f.BoolVar(&r.json, "json", false, "print every run as JSON and not the table")
	f.BoolVar(&r.check, "check", false, "exit with code 3 if a criterion is missed")
	f.StringVar(&r.csv, "csv", "", "write every figure of every run to a file, one a line")
	f.StringVar(&r.plots, "plot", "", "draw pictures (PNG) into a directory, one or more for each scenario")
	f.Var(countVar{&r.jobs, 1, maxSimJobs}, "jobs", "runs at the same time")
	return cmd
}

const maxSimJobs = 1024

func (r *simRun) run(cmd *cobra.Command, args []string) error {
	var jobs []experiment.Job
	for _, name := range args {
		s, err := readScenario(name)
		if err != nil {
			return err
		}
		if len(r.seeds) > 0 {
			s.Seeds = nil
			for _, n := range r.seeds {
				s.Seeds = append(s.Seeds, uint64(n))
			}
		}
		chosen, err := experiment.Schemes(s, r.schemes)
		if err != nil {
			return usageError{fmt.Errorf("%s: %w", name, err), true}
		}
		jobs = append(jobs, experiment.Jobs(s, chosen)...)
	}
	if r.plots != "" {
		if err := os.MkdirAll(r.plots, 0o777); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	p := newSimProgress(cmd.ErrOrStderr(), jobs)
	results, err := experiment.RunAll(ctx, jobs, int(r.jobs), p.report)
	p.clear()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return errors.New("interrupted")
		}
		return err
	}
	return r.show(cmd.OutOrStdout(), experiment.Summaries(jobs, results), results)
}

// readScenario reads a file if the name looks like one, else from the library.
func readScenario(name string) (*scenario.Scenario, error) {
	isFile := strings.ContainsRune(name, filepath.Separator) || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
	if !isFile {
		s, err := scenario.Named(name)
		if err != nil {
			return nil, usageError{err, true}
		}
		return s, nil
	}
	s, err := scenario.Read(name)
	if err != nil {
		return nil, usageError{err, true}
	}
	return s, nil
}

// show writes what the flags ask for.
func (r *simRun) show(w io.Writer, all []*experiment.Summary, results []*experiment.Result) error {
	if r.csv != "" {
		if err := writeFile(r.csv, func(w io.Writer) error { return experiment.WriteCSV(w, results) }); err != nil {
			return err
		}
	}
	missed := 0
	for i, group := range report.ByScenario(all) {
		for _, s := range group {
			missed += len(s.Missed())
		}
		if !r.json {
			if i > 0 {
				fmt.Fprintln(w)
			}
			printScenario(w, group)
		}
		if r.plots == "" {
			continue
		}
		for _, p := range report.Plots(group) {
			path := filepath.Join(r.plots, p.Name)
			if err := writeFile(path, p.WritePNG); err != nil {
				return err
			}
			if !r.json {
				fmt.Fprintf(w, "drawn: %s\n", path)
			}
		}
	}
	if r.json {
		if err := writeJSON(w, results); err != nil {
			return err
		}
	}
	switch {
	case !r.check || missed == 0:
		return nil
	case missed == 1:
		return answerNo("1 criterion missed")
	}
	return answerNo("%d criteria missed", missed)
}

func printScenario(w io.Writer, group []*experiment.Summary) {
	s := group[0].Scenario
	fmt.Fprintf(w, "%s: %s, %d seeds\n", s.Name, s.Title, len(s.Seeds))
	print := func(t experiment.Table) {
		for i := range t.Header {
			t.Header[i] = strings.ToUpper(t.Header[i])
		}
		for _, l := range view.Align(append([][]string{t.Header}, t.Rows...)) {
			fmt.Fprintln(w, l)
		}
	}
	print(experiment.Verdicts(group))
	if len(s.Measure.Buckets) > 0 {
		for _, p := range []int{50, 99} {
			fmt.Fprintf(w, "\nslowdown by size, percentile %d\n", p)
			print(experiment.Slowdowns(group, p))
		}
	}
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Close()
}

// simProgress shows how far the runs are, on a terminal only.
type simProgress struct {
	w    io.Writer
	jobs []experiment.Job

	mu     sync.Mutex
	shares []float64
	shown  time.Time
}

func newSimProgress(w io.Writer, jobs []experiment.Job) *simProgress {
	if !isTerminal(w) {
		w = nil
	}
	return &simProgress{w: w, jobs: jobs, shares: make([]float64, len(jobs))}
}

func (p *simProgress) report(job int, share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shares[job] = share
	if p.w == nil || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	sum := 0.0
	for _, s := range p.shares {
		sum += s
	}
	fmt.Fprintf(p.w, "\r\x1b[K%3.0f %% of %d runs: %v", 100*sum/float64(len(p.shares)), len(p.jobs), p.jobs[job])
}

func (p *simProgress) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
