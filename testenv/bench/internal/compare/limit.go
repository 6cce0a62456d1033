// SPDX-License-Identifier: Apache-2.0

package compare

import "fmt"

// Verdict says whether a figure is within its limit.
type Verdict string

// The verdicts. All but Met count as missed.
const (
	Met         Verdict = "ok"
	Missed      Verdict = "MISSED"
	Unstable    Verdict = "UNSTABLE"     // The rounds do not tell on which side of the limit the figure is.
	NotMeasured Verdict = "NOT MEASURED" // There is no figure.
)

// Met and Missed by a condition.
func verdictOf(met bool) Verdict {
	if met {
		return Met
	}
	return Missed
}

// Limit is the least or the largest value that a figure may have.
type Limit struct {
	value  float64
	most   bool
	format string
}

// AtLeast and AtMost return a limit, which belongs to what is allowed. It is printed in a format.
func AtLeast(value float64, format string) Limit { return Limit{value, false, format} }

// AtMost is described at AtLeast.
func AtMost(value float64, format string) Limit { return Limit{value, true, format} }

func (l Limit) String() string {
	if l.most {
		return fmt.Sprintf("<= "+l.format, l.value)
	}
	return fmt.Sprintf(">= "+l.format, l.value)
}

func (l Limit) allows(v float64) bool {
	if l.most {
		return v <= l.value
	}
	return v >= l.value
}

// Judge judges a figure that was made of some rounds. One that is NaN or infinite, or has such a round, is not measured. The verdict is Unstable if the figures around the median
// (Series.Around) are further apart than the figure is from the limit, so that one of them is beyond it. One round, or
// none, has no spread.
func (l Limit) Judge(value float64, rounds Series) Verdict {
	if !finite(value) || len(rounds) > 0 && !rounds.measured() {
		return NotMeasured
	}
	if len(rounds) > 1 {
		low, high := rounds.Around()
		if l.allows(low) != l.allows(value) || l.allows(high) != l.allows(value) {
			return Unstable
		}
	}
	return verdictOf(l.allows(value))
}
