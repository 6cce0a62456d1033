// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Report prints tables and goals, and stores whether all verdicts are Met.
type Report struct {
	out    io.Writer
	missed bool
}

// NewReport returns a report without a verdict.
func NewReport(out io.Writer) *Report { return &Report{out: out} }

// Err is nil if all verdicts are Met. Otherwise the exit status of Failure(Err()) is 1.
func (r *Report) Err() error {
	if r.missed {
		return errMissed
	}
	return nil
}

// Print prints text between tables.
func (r *Report) Print(format string, args ...any) { fmt.Fprintf(r.out, format, args...) }

func (r *Report) note(v Verdict) Verdict {
	r.missed = r.missed || v != Met
	return v
}

// Goal is a statement about figures with its verdict.
type Goal struct {
	Verdict Verdict
	Text    string
}

// Goals are statements in the order in which they are printed.
type Goals []Goal

// Add adds a statement.
func (g *Goals) Add(v Verdict, format string, args ...any) {
	*g = append(*g, Goal{v, fmt.Sprintf(format, args...)})
}

// Expect adds a statement that is true or not.
func (g *Goals) Expect(met bool, format string, args ...any) { g.Add(verdictOf(met), format, args...) }

// Unmet returns the statements whose verdict is not Met.
func (g Goals) Unmet() Goals {
	return slices.DeleteFunc(slices.Clone(g), func(x Goal) bool { return x.Verdict == Met })
}

// Goals prints a line for each statement.
func (r *Report) Goals(all Goals) {
	for _, g := range all {
		r.Print("%-6s  %s\n", r.note(g.Verdict), g.Text)
	}
}

// Table is a table of a report. It is printed by End.
type Table struct {
	report   *Report
	w        *tabwriter.Writer
	unsteady bool // The reference of this table is not to be relied on.
}

// Table begins a table. Cells are separated by tabs.
func (r *Report) Table(header string) *Table {
	t := &Table{report: r, w: tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.w, header)
	return t
}

// Titled begins a table with a title above it.
func (r *Report) Titled(title, header string) *Table {
	r.Print("\n%s\n\n", title)
	return r.Table(header)
}

// Row adds a row, whose cells are separated by tabs.
func (t *Table) Row(format string, args ...any) { fmt.Fprintf(t.w, format+"\t\n", args...) }

// Steady is the largest factor between the rounds of a reference.
const Steady = 2

// Reference has the rows judged only if what they are compared with was about the same in all rounds: the ninth tenth
// is at most Steady times the first one. Otherwise the machine did other things, and all verdicts are Unstable.
func (t *Table) Reference(rounds Series) {
	s := slices.Sorted(slices.Values(rounds))
	tenth := len(s) / 10
	t.unsteady = len(s) > 0 && s[len(s)-1-tenth] > Steady*s[tenth]
}

// None is in place of the two cells of Judge where there is no limit.
const None = "-\t"

// Judge returns two cells, the limit and the verdict of a figure that was made of some rounds.
func (t *Table) Judge(l Limit, value float64, rounds Series) string {
	v := l.Judge(value, rounds)
	if t.unsteady && v != NotMeasured {
		v = Unstable
	}
	return l.String() + "\t" + string(t.report.note(v))
}

// Median is Judge for the median of rounds.
func (t *Table) Median(l Limit, rounds Series) string { return t.Judge(l, rounds.Median(), rounds) }

// End prints the table, and lines under it.
func (t *Table) End(notes ...string) {
	t.w.Flush()
	for _, n := range notes {
		fmt.Fprintln(t.report.out, n)
	}
	if t.unsteady {
		t.report.Print("What this is compared with changed by more than %d from round to round: the machine is busy with other things.\n", Steady)
	}
}
