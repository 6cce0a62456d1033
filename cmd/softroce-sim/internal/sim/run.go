// SPDX-License-Identifier: Apache-2.0

package sim

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

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cc/report"
	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/internal/texts"
)

// runFlags are the flags of run.
type runFlags struct {
	schemes []string
	seeds   []uint64
	json    bool
	check   bool
	csv     string   // a path, or standardOutput
	csvFile *os.File // open, and not yet changed
	plots   string
	jobs    uint32
}

func newRun() *cobra.Command {
	r := runFlags{jobs: uint32(min(runtime.NumCPU(), maxJobs))}
	cmd := &cobra.Command{
		Use:   "run SCENARIO...",
		Short: "Run scenarios with several schemes and compare them",
		Long: `Run simulates each scenario (a YAML file or a name of ` + "`list`" + `) with every scheme
and seed, and prints a table: the worst value over the seeds of each figure that has a
criterion, the median of the others. What misses its criterion is marked with "!".`,
		Example: `  softroce-sim run incast-8
  softroce-sim run late-joiner --scheme fourcase,dcqcn --plot out
  softroce-sim run mine.yaml --seed 1,2,3,4 --csv mine.csv`,
		Args:              cli.Takes(1, cli.Many),
		ValidArgsFunction: complete,
		RunE:              r.run,
	}
	f := cmd.Flags()
	f.Var(cli.ListVar(&r.schemes, "a scheme", cli.OneWord), "scheme", "only these, by name or by label in the scenario (default: the scenario's, or all)")
	f.Var(cli.ListVar(&r.seeds, "a seed", seed), "seed", "these seeds and not the scenario's")
	f.BoolVar(&r.json, "json", false, "print every run as JSON and not the table")
	f.BoolVar(&r.check, "check", false, "exit with code 3 if a criterion is missed")
	f.StringVar(&r.csv, "csv", "", "write every figure of every run to a file, one a line; - is the standard output, instead of the table")
	f.StringVar(&r.plots, "plot", "", "draw pictures (SVG) into a directory, one or more for each scenario")
	f.Var(cli.CountVar(&r.jobs, 1, maxJobs), "jobs", "runs at the same time")
	return cmd
}

const maxJobs = 1024

// standardOutput is the file that --csv writes to the standard output.
const standardOutput = "-"

func (r *runFlags) run(cmd *cobra.Command, args []string) error {
	var jobs []experiment.Job
	for _, name := range args {
		s, err := readScenario(name)
		if err != nil {
			return err
		}
		if len(r.seeds) > 0 {
			s.Seeds = r.seeds
		}
		chosen, err := experiment.Schemes(s, r.schemes)
		if err != nil {
			return cli.PlainUsage(fmt.Errorf("%s: %w", name, err))
		}
		jobs = append(jobs, experiment.Jobs(s, chosen)...)
	}
	if err := r.open(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	shares := experiment.NewShares(jobs)
	shown := texts.ShowProgress(cli.RawOf(cmd.ErrOrStderr()), shares.String)
	results, err := experiment.RunAll(ctx, jobs, int(r.jobs), shares.Report)
	shown()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return errors.New("interrupted")
		}
		return err
	}
	return r.show(cmd.OutOrStdout(), experiment.Summaries(jobs, results), results)
}

// open opens what the run will write, so that it does not fail after hours. A file keeps
// what it has until there are results.
func (r *runFlags) open() (err error) {
	if r.csv == standardOutput && r.json {
		return cli.Usagef("--csv - and --json both write to the standard output: choose one")
	}
	if r.plots != "" {
		if err := os.MkdirAll(r.plots, 0o777); err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
		f, err := os.CreateTemp(r.plots, ".softroce-*")
		if err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
		f.Close()
		os.Remove(f.Name())
	}
	if r.csv != "" && r.csv != standardOutput {
		if r.csvFile, err = os.OpenFile(r.csv, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
			return fmt.Errorf("--csv: %w", err)
		}
	}
	return nil
}

// writeCSV writes all figures to where --csv says.
func (r *runFlags) writeCSV(w io.Writer, results []*experiment.Result) error {
	write := func(w io.Writer) error { return experiment.WriteCSV(w, results) }
	if r.csvFile == nil {
		return write(w)
	}
	if st, err := r.csvFile.Stat(); err == nil && st.Mode().IsRegular() {
		if err := r.csvFile.Truncate(0); err != nil {
			return err
		}
	}
	return writeOpen(r.csvFile, write)
}

// readScenario reads a file if the name looks like one, else from the library.
func readScenario(name string) (*scenario.Scenario, error) {
	isFile := strings.ContainsRune(name, filepath.Separator) || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
	if !isFile {
		s, err := scenario.Named(name)
		if err != nil {
			return nil, cli.PlainUsage(err)
		}
		return s, nil
	}
	s, err := scenario.Read(name)
	if err != nil {
		return nil, cli.PlainUsage(err)
	}
	return s, nil
}

// show writes what the flags ask for.
func (r *runFlags) show(w io.Writer, all []*experiment.Summary, results []*experiment.Result) error {
	if r.csv != "" {
		if err := r.writeCSV(w, results); err != nil {
			return err
		}
	}
	missed := 0
	for i, group := range report.ByScenario(all) {
		for _, s := range group {
			missed += len(s.Missed())
		}
		table := !r.json && r.csv != standardOutput
		if table {
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
			if err := writeFile(path, p.WriteSVG); err != nil {
				return err
			}
			if table {
				fmt.Fprintf(w, "drawn: %s\n", path)
			}
		}
	}
	if r.json {
		if err := cli.WriteJSON(w, results); err != nil {
			return err
		}
	}
	switch {
	case !r.check || missed == 0:
		return nil
	case missed == 1:
		return cli.AnswerNo("1 criterion missed")
	}
	return cli.AnswerNo("%d criteria missed", missed)
}

func printScenario(w io.Writer, group []*experiment.Summary) {
	s := group[0].Scenario
	fmt.Fprintf(w, "%s: %s, %d seeds\n", s.Name, s.Title, len(s.Seeds))
	print := func(t experiment.Table) {
		for i := range t.Header {
			t.Header[i] = strings.ToUpper(t.Header[i])
		}
		for _, l := range cli.Align(append([][]string{t.Header}, t.Rows...)) {
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
	return writeOpen(f, write)
}

// writeOpen writes a file that is open, and closes it.
func writeOpen(f *os.File, write func(io.Writer) error) error {
	if err := write(f); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return f.Close()
}

// seed parses the seed of a simulation.
func seed(s string) (uint64, error) {
	var v uint64
	err := cli.BigVar(&v, 0).Set(s)
	return v, err
}
