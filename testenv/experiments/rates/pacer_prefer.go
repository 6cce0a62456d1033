// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// preferred is the nice value of a run: where others use the machine as well, a source
// that is not let run for a while is not the pacer's error.
const preferred = -15

// Prefer has this process go before others, with all that it starts, until the returned function is called.
func Prefer() (end func() error, err error) {
	if err := setNice(preferred); err != nil {
		return nil, errors.Join(err, setNice(0))
	}
	return func() error { return setNice(0) }, nil
}

// setNice gives all threads of the process a nice value, which threads and processes
// that they start inherit.
func setNice(nice int) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("nice value %d: %w", nice, err)
		}
	}
	return nil
}
