// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/internal/agent"
)

// clockTime is how long the rate of a machine's clock is measured.
const clockTime = time.Second

// errClockRate is the error of a machine whose clock is too fast or too slow. Its kernel measures the processor's clock
// when it starts, and a busy host disturbs that. All machines restored from it would have the same clock.
var errClockRate = errors.New("the rate of the machine's clock is off by more than 1 %")

// clockReading is a machine's clock at some time between two of the host.
type clockReading struct {
	before, after time.Time
	clock         time.Duration
}

// checkClockRate compares the clock of a machine, which is not set up yet, with this host's.
func (vm *VM) checkClockRate(ctx context.Context) error {
	defer interrupt(ctx, vm.port)()
	first, err := vm.readClock()
	if err != nil {
		return vm.failed("read its clock", errors.Join(err, ctx.Err()))
	}
	select {
	case <-time.After(clockTime):
	case <-ctx.Done():
		return ctx.Err()
	}
	last, err := vm.readClock()
	if err != nil {
		return vm.failed("read its clock", errors.Join(err, ctx.Err()))
	}
	return compareRates(first, last)
}

// readClock returns the quickest of some readings.
func (vm *VM) readClock() (clockReading, error) {
	var best clockReading
	for i := range 5 {
		r := clockReading{before: time.Now()}
		var err error
		if r.clock, err = agent.ReadClock(vm.port); err != nil {
			return best, err
		}
		r.after = time.Now()
		if i == 0 || r.after.Sub(r.before) < best.after.Sub(best.before) {
			best = r
		}
	}
	return best, nil
}

// compareRates returns an error if a machine's clock has run at a rate that is off by more than 1 %, whenever it was
// read within the two readings.
func compareRates(first, last clockReading) error {
	passed := last.clock - first.clock
	least, most := last.before.Sub(first.after), last.after.Sub(first.before)
	if 100*passed < 99*least || 100*passed > 101*most {
		return fmt.Errorf("%w: it advanced by %v within %v to %v", errClockRate, passed, least, most)
	}
	return nil
}
