// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Range is a published value, or the values that a plot can be read as. The zero
// Range means that only the order is known.
type Range struct{ Low, High float64 }

func at(v float64) Range { return Range{v, v} }

func (r Range) String() string {
	switch {
	case r == Range{}:
		return "-"
	case r.Low == r.High:
		return fmt.Sprintf("%.3g", r.Low)
	}
	return fmt.Sprintf("%.3g-%.3g", r.Low, r.High)
}

// ratio is v over the nearest published value.
func (r Range) ratio(v float64) float64 {
	switch {
	case r.High == 0:
		return 0
	case v < r.Low:
		return v / r.Low
	case v > r.High:
		return v / r.High
	}
	return 1
}

// Row is one known result and ours.
type Row struct {
	ID     string // V1 to V9 of the list of known results
	What   string // quantity that is measured
	Scheme string // scheme; or, for a row about the order of schemes, that order
	Paper  Range
	Ours   float64
	// OK: within the row's tolerance, or the order is the published one.
	OK   bool
	Note string // reason why not, or the difference from the paper's set-up
	// Aside: no paper has a value; the row explains another.
	Aside bool
}

// Ratio is ours over the paper's, 1 inside its range, 0 if it has no number.
func (r *Row) Ratio() float64 { return r.Paper.ratio(r.Ours) }

// Table writes rows as text in columns.
func Table(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\texperiment\tscheme\tpaper\tours\tratio\t\t")
	for _, r := range rows {
		ratio, ours := "", fmt.Sprintf("%.3g", r.Ours)
		if r.Paper != (Range{}) {
			ratio = fmt.Sprintf("%.2f", r.Ratio())
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%v\t%s\t%s\t%s\t%s\n", r.ID, r.What, r.Scheme, r.Paper, ours, ratio, r.Verdict(), r.Note)
	}
	return t.Flush()
}

// Markdown writes rows as a table of a document.
func Markdown(w io.Writer, rows []Row) error {
	var b strings.Builder
	b.WriteString("| | experiment | scheme | paper | ours | ratio | | |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		ratio := ""
		if r.Paper != (Range{}) {
			ratio = fmt.Sprintf("%.2f", r.Ratio())
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %v | %.3g | %s | %s | %s |\n", r.ID, r.What, r.Scheme, r.Paper, r.Ours, ratio, r.Verdict(), r.Note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Verdict is what the row shows, in a word or two.
func (r *Row) Verdict() string {
	switch {
	case r.Aside:
		return "not published"
	case r.OK:
		return "agrees"
	}
	return "DEPARTS"
}

// within says whether v is the published value give or take a factor.
func (r Range) within(v, factor float64) bool {
	q := r.ratio(v)
	return q > 0 && q <= factor && q >= 1/factor
}

// ordered says whether ours rise as the published values do. Published values
// within near of each other are no order; of the others, ours must differ in the
// same direction, or by less than slack in the other.
func ordered(paper []Range, ours []float64, near, slack float64) (bad [][2]int) {
	for i := range paper {
		for j := range paper {
			if paper[i].High*(1+near) < paper[j].Low && ours[i] > ours[j]*(1+slack) {
				bad = append(bad, [2]int{i, j})
			}
		}
	}
	return bad
}
