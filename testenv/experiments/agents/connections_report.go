// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"fmt"
	"io"
	"time"
)

// tenths is in how many windows a report divides the parts of a load.
const tenths = 10

// tenth returns the parts of a tenth, the first one is 0; nil: there are too few parts.
func (r *Result) tenth(i int) []Part {
	if len(r.Parts) < tenths {
		return nil
	}
	return r.Parts[len(r.Parts)*i/tenths : len(r.Parts)*(i+1)/tenths]
}

// Held returns the medians of what a subject held in the second tenth of the parts and in the last one. ok is false
// if the load had too few parts.
func (r *Result) Held(subject string) (second, last Held, ok bool) {
	of := func(parts []Part) Held {
		var all []Held
		for _, p := range parts {
			all = append(all, p.Held[subject])
		}
		return median(all)
	}
	if r.tenth(0) == nil {
		return second, last, false
	}
	return of(r.tenth(1)), of(r.tenth(tenths - 1)), true
}

// WriteText writes the figures as text.
func (r *Result) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s\n", r.Load)
	fmt.Fprintf(w, "%d connected, %d accepted, %d failed, %d beyond their deadline of %v; %.1f s, %.1f connections/s, slowest %v\n",
		r.Done, r.Accepted, r.Failed, r.Late, r.Load.Deadline, r.Elapsed.Seconds(), float64(r.Done)/r.Elapsed.Seconds(), r.Slowest.Round(time.Millisecond))
	for _, e := range r.Errors {
		fmt.Fprintf(w, "error: %s\n", e)
	}
	if r.tenth(0) == nil {
		return
	}
	fmt.Fprintf(w, "%-8s %12s %14s %12s\n", "tenth", "connections", "connections/s", "slowest")
	var before Part
	for i := range tenths {
		parts := r.tenth(i)
		last, slowest := parts[len(parts)-1], time.Duration(0)
		for _, p := range parts {
			slowest = max(slowest, p.Slowest)
		}
		n := last.Done - before.Done
		fmt.Fprintf(w, "%-8d %12d %14.1f %12v\n", i+1, n, float64(n)/(last.Elapsed-before.Elapsed).Seconds(), slowest.Round(time.Millisecond))
		before = last
	}
	fmt.Fprintf(w, "%-22s %-12s %10s %12s %12s %10s\n", "medians of a tenth", "", "VmRSS KiB", "RssAnon KiB", "descriptors", "goroutines")
	for _, s := range Subjects {
		second, last, _ := r.Held(s)
		for i, h := range []Held{second, last} {
			fmt.Fprintf(w, "%-22s %-12s %10d %12d %12d %10d\n", s, []string{"second tenth", "last tenth"}[i], h.RSS, h.Anon, h.Descriptors, h.Goroutines)
		}
	}
}
