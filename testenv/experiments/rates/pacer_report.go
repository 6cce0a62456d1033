// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"errors"
	"fmt"
	"time"
)

// What is promised.
const (
	// MaxError of a rate, either way.
	MaxError = 0.03
	// MaxTable is the agent's longest evaluation interval: 10 ms, and more where a turn
	// costs more than its share of the CPU.
	MaxTable = 260 * time.Millisecond
	// MaxWire is one evaluation interval.
	MaxWire = 10 * time.Millisecond
	// MaxHeld is how long fq may hold packets (edt): each has its time already.
	MaxHeld = time.Second
)

// Broken says what of a row is wrong on every machine, however slow: packets were overtaken,
// or more left than the rate allows.
func (r PacerRow) Broken() error {
	var errs []error
	if e := r.Error(); e > MaxError && !r.Limited {
		errs = append(errs, fmt.Errorf("%s at %s: %+.2f %% off", r.Pacer, bits(float64(r.RateBps)), 100*e))
	}
	if r.Reordered > 0 {
		errs = append(errs, fmt.Errorf("%s at %s: %d packets out of order", r.Pacer, bits(float64(r.RateBps)), r.Reordered))
	}
	return errors.Join(errs...)
}

// Verdict says what of a row is not as promised; nil if all is.
func (r PacerRow) Verdict() error {
	if r.Limited {
		return r.Broken()
	}
	errs := []error{r.Broken()}
	if e := r.Error(); e < -MaxError {
		errs = append(errs, fmt.Errorf("%s at %s: %+.2f %% off", r.Pacer, bits(float64(r.RateBps)), 100*e))
	}
	// One packet at the old rate is in flight when it changes and cannot be recalled.
	last := time.Duration(float64(r.Frame*8) / float64(r.RateBps/10) * float64(time.Second))
	for _, c := range []struct {
		name string
		Change
	}{{"up", r.Up}, {"down", r.Down}} {
		most := MaxWire + last
		if r.Pacer == "edt" {
			most += MaxHeld
		}
		if c.Table > MaxTable || c.Wire > most {
			errs = append(errs, fmt.Errorf("%s at %s, %s: in the table after %v, in force %v later", r.Pacer, bits(float64(r.RateBps)), c.name, c.Table, c.Wire))
		}
	}
	return errors.Join(errs...)
}

// Head is the head of the table whose lines are rows. Unpaced is what the machine carries,
// measured just before: from nine tenths of that on, a rate that is missed is not the
// pacer's doing.
const Head = "| pacer | rate | frame | measured | error | unpaced | up: table | wire | down: table | wire | out of order | tries |\n|---|---|---|---|---|---|---|---|---|---|---|---|"

// String is the row as a line of a table.
func (r PacerRow) String() string {
	if r.Limited {
		return fmt.Sprintf("| %s | %s | %d | %s | the machine carries no more | %s | | | | | | |", r.Pacer, bits(float64(r.RateBps)), r.Frame, bits(r.Measured), bits(r.Unpaced))
	}
	ms := func(d time.Duration) string {
		if r.Up == (Change{}) {
			return "-"
		}
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("| %s | %s | %d | %s | %+.2f %% | %s | %s | %s | %s | %s | %d | %d |", r.Pacer, bits(float64(r.RateBps)), r.Frame,
		bits(r.Measured), 100*r.Error(), bits(r.Unpaced), ms(r.Up.Table), ms(r.Up.Wire), ms(r.Down.Table), ms(r.Down.Wire), r.Reordered, r.Tries)
}

func bits(v float64) string {
	if v >= 1e9 {
		return fmt.Sprintf("%.4g Gbit/s", v/1e9)
	}
	return fmt.Sprintf("%.4g Mbit/s", v/1e6)
}
