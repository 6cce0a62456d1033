// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// report prints tables and remembers whether a target was missed.
type report struct {
	out io.Writer
	ok  bool
	w   *tabwriter.Writer

	unstable bool // the limit of this table is not to be relied on
}

// steady is the most by which the rounds of a limit may differ.
const steady = 2

// limit has the table's rows judged only if what they are compared with was about the
// same in all rounds. Where it was not, something else kept the machine busy, and
// shares of such a limit say nothing; that is no success either.
func (r *report) limit(rounds []float64) {
	s := slices.Sorted(slices.Values(rounds))
	tenth := len(s) / 10 // one in ten may be what it likes, on either side
	r.unstable = s[len(s)-1-tenth] > steady*s[tenth]
}

func (r *report) table(title, header string) {
	fmt.Fprintf(r.out, "\n%s\n\n", title)
	r.unstable = false
	r.w = tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(r.w, header)
}

func (r *report) row(format string, args ...any) { fmt.Fprintf(r.w, format+"\t\n", args...) }

func (r *report) end(notes ...string) {
	r.w.Flush()
	for _, n := range notes {
		fmt.Fprintln(r.out, n)
	}
	if r.unstable {
		fmt.Fprintln(r.out, "What this is compared with changed by more than 2 from round to round: the machine is busy with other things.")
	}
}

// atLeast and atMost are the two last cells of a row with a target.
func (r *report) atLeast(v, target float64, format string) string {
	return r.judge(v >= target, ">= "+format, target)
}

func (r *report) atMost(v, target float64, format string) string {
	return r.judge(v <= target, "<= "+format, target)
}

func (r *report) judge(ok bool, format string, target float64) string {
	s := fmt.Sprintf(format, target)
	if r.unstable {
		r.ok = false
		return s + "\tTOO BUSY TO TELL"
	}
	if ok {
		return s + "\tok"
	}
	r.ok = false
	return s + "\tMISSED"
}

// none is in their place where there is no target.
const none = "-\t"

// span is the least and the largest.
func span(v []float64, format string) string {
	return fmt.Sprintf(format+" to "+format, slices.Min(v), slices.Max(v))
}

// ratios divides round by round: what else the machine did hit both alike.
func ratios(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] / b[i]
	}
	return out
}
