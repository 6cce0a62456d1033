// SPDX-License-Identifier: Apache-2.0

package main

// `bench ccreport` runs the library of scenarios and writes docs/study/congestion-control.md with its pictures:
// `make cc-report`.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cc/report"
	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/cc/sim/schemes"
	"github.com/softroce/softroce-xdp/internal/texts"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// ccReportCommand is the subcommand of bench.
func ccReportCommand() *cobra.Command {
	// Lines of their own even on a terminal, as there are others between them.
	o := ccReportOptions{log: os.Stdout, progress: struct{ io.Writer }{os.Stderr}}
	cmd := &cobra.Command{
		Use:   "ccreport",
		Short: "Run the library of scenarios and write docs/study/congestion-control.md",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return compare.Failure(ccReport(cmd.Context(), o)) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "out", "docs/study", "directory of congestion-control.md; pictures go to img in it")
	f.BoolVar(&o.quick, "quick", false, "a tenth of the time on small networks: to see that it works, not what comes out")
	f.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "runs at the same time")
	return cmd
}

type ccReportOptions struct {
	dir   string
	quick bool
	jobs  int
	log   io.Writer // a line for what has ended

	progress io.Writer // progress of the run
}

func ccReport(ctx context.Context, o ccReportOptions) error {
	begin := time.Now()
	// Now, as sources that change during the runs are not what is measured.
	sources, err := report.Fingerprint(".")
	if err != nil {
		return err
	}
	library, err := scenario.Library()
	if err != nil {
		return err
	}
	var jobs, scale []experiment.Job
	for _, s := range library {
		if o.quick {
			report.Quick(s)
		}
		chosen, err := experiment.Schemes(s, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if s.Group == scenario.Scale {
			scale = append(scale, experiment.Jobs(s, chosen)...)
		} else {
			jobs = append(jobs, experiment.Jobs(s, chosen)...)
		}
	}
	results, err := o.runAll(ctx, jobs, o.jobs, o.says(jobs))
	if err != nil {
		return err
	}
	known, err := validated(o)
	if err != nil {
		return err
	}
	// These are timed: one at a time, with nothing next to them.
	scaled, times, err := o.timed(ctx, scale)
	if err != nil {
		return err
	}
	in := report.Input{Summaries: experiment.Summaries(slices.Concat(jobs, scale), slices.Concat(results, scaled)), About: map[string]string{}, Validation: known, Short: o.quick, Sources: sources}
	for _, j := range slices.Concat(jobs, scale) {
		in.About[j.Scheme.Label] = about(in.About[j.Scheme.Label], j.Scheme)
	}
	if err := write(report.New(in), o.dir); err != nil {
		return err
	}
	times = fmt.Sprintf("%s\nThe whole report took %v with %d runs at a time.\n", times, time.Since(begin).Round(time.Second), o.jobs)
	fmt.Fprint(o.log, times)
	return os.WriteFile(filepath.Join(o.dir, "cc-timing.txt"), []byte(times), 0o666)
}

// about says what a scheme is, and which parameters the scenarios gave it under a label of its
// own. known is what was said of it for the scenarios before.
func about(known string, x scenario.Scheme) string {
	if known == "" {
		i := slices.IndexFunc(schemes.List(), func(e schemes.Entry) bool { return e.Name == x.Name })
		known = schemes.List()[i].About
	}
	if x.Label == x.Name {
		return known // the scenario says why it has parameters there
	}
	for _, p := range x.Params {
		if text := p.Name + " " + p.Value; !strings.Contains(known, text) {
			known += "; " + text
		}
	}
	return known
}

// validated runs the published experiments.
func validated(o ccReportOptions) ([]report.Row, error) {
	if o.quick {
		return nil, nil // that package has tests of its own
	}
	begin := time.Now()
	defer texts.ShowProgress(o.progress, func() string { return "the published experiments" })()
	return report.Full(o.jobs, func(what string) { fmt.Fprintf(o.log, "%6.1f s  validation: %s\n", time.Since(begin).Seconds(), what) })
}

// runAll runs the jobs and shows how far they are.
func (o *ccReportOptions) runAll(ctx context.Context, jobs []experiment.Job, parallel int, told experiment.Progress) ([]*experiment.Result, error) {
	shares := experiment.NewShares(jobs)
	defer texts.ShowProgress(o.progress, shares.String)()
	return experiment.RunAll(ctx, jobs, parallel, func(job int, share float64) {
		shares.Report(job, share)
		told(job, share)
	})
}

// says prints a line when a run ends.
func (o *ccReportOptions) says(jobs []experiment.Job) experiment.Progress {
	begin := time.Now()
	return func(job int, share float64) {
		if share == 1 {
			fmt.Fprintf(o.log, "%6.1f s  %v\n", time.Since(begin).Seconds(), jobs[job])
		}
	}
}

// write writes the document and its pictures.
func write(d *report.Document, dir string) error {
	img := filepath.Join(dir, "img")
	if err := os.MkdirAll(img, 0o777); err != nil {
		return err
	}
	for _, p := range d.Plots {
		var b bytes.Buffer
		if err := p.WriteSVG(&b); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		fmt.Fprintf(&b, "<!-- Made by `make cc-report`; do not edit. Sources: %s -->\n", d.Sources)
		if err := os.WriteFile(filepath.Join(img, p.Name), b.Bytes(), 0o666); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	if err := d.WriteMarkdown(&b); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "congestion-control.md"), b.Bytes(), 0o666)
}
