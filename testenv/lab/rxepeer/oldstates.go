// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// mostStates of an image stay: more than one run of the tests uses. One takes about 200 MB.
	mostStates = 12
	// unusedTime is how long the states of other images stay after their last use: other checkouts may use them.
	unusedTime = 24 * time.Hour
)

// hasState tells whether a folder has a state. If so, the state counts as used.
func hasState(dir string) bool {
	now := time.Now()
	return os.Chtimes(dir, now, now) == nil
}

// removeOldStates makes room for one more state of an image: it removes those that this host used before it started,
// which cannot be restored, those that were not used for the longest time, and what a process left behind that was
// killed while it made one. The caller has the lock.
func removeOldStates(folder string, hostStart time.Time) error {
	left, err := filepath.Glob(filepath.Join(folder, buildPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	stay := 0
	return removeStates(folder, func(used time.Time) bool {
		stay++
		return used.Before(hostStart) || stay >= mostStates
	})
}

// removeOthersStates removes the states of other images that nobody has used for unusedTime: those of recipes that
// have changed since, for example.
func removeOthersStates(ctx context.Context, folder string) error {
	images, err := filepath.Glob(filepath.Join(filepath.Dir(folder), imagePrefix+"*", manifestFile))
	if err != nil {
		return err
	}
	var errs []error
	for _, manifest := range images {
		if other := filepath.Dir(manifest); other != folder {
			errs = append(errs, removeUnused(ctx, other))
		}
	}
	return errors.Join(errs...)
}

// removeUnused removes the states of an image that were not used for unusedTime, unless another process makes one.
func removeUnused(ctx context.Context, folder string) error {
	unused := func(used time.Time) bool { return time.Since(used) > unusedTime }
	if _, states, err := statesByUse(folder); err != nil || !slices.ContainsFunc(states, unused) {
		return err
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	unlock, err := lockStates(short, folder)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	return removeStates(folder, unused)
}

// removeStates removes the states of an image that old tells so by the time of their last use. It asks in the
// order of use, the last first. The caller has the lock.
func removeStates(folder string, old func(used time.Time) bool) error {
	dirs, used, err := statesByUse(folder)
	if err != nil {
		return err
	}
	for i, dir := range dirs {
		if !old(used[i]) {
			continue
		}
		if err := discard(dir); err != nil {
			return err
		}
	}
	return nil
}

// statesByUse returns the states of an image and the times of their last use, the last first.
func statesByUse(folder string) (dirs []string, used []time.Time, err error) {
	if dirs, err = filepath.Glob(filepath.Join(folder, statePrefix+"*")); err != nil {
		return nil, nil, err
	}
	at := map[string]time.Time{}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil { // Else another process has removed it.
			at[dir] = info.ModTime()
		}
	}
	dirs = slices.Collect(maps.Keys(at))
	slices.SortFunc(dirs, func(a, b string) int { return at[b].Compare(at[a]) })
	for _, dir := range dirs {
		used = append(used, at[dir])
	}
	return dirs, used, nil
}

// hostStarted is when this host's kernel started, by its clock of now.
func hostStarted() (time.Time, error) {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Time{}, os.NewSyscallError("clock_gettime", err)
	}
	return time.Now().Add(-time.Duration(up.Nano())), nil
}
