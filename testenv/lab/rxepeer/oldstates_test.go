// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// makeStates makes folders of states in the folder of an image, by the times since their last use.
func makeStates(t *testing.T, folder string, unused map[string]time.Duration) {
	t.Helper()
	for name, d := range unused {
		dir, at := filepath.Join(folder, name), time.Now().Add(-d)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, memoryFile), nil, 0o644), os.Chtimes(dir, at, at)); err != nil {
			t.Fatal(err)
		}
	}
}

// wantFiles wants the files and folders of a folder to be these.
func wantFiles(t *testing.T, folder string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("%s: got (-) and want (+) differ:\n%s", folder, d)
	}
}

// TestRemoveOldStates has too many states, one of which was used last, and what a killed process left behind.
func TestRemoveOldStates(t *testing.T) {
	dir := t.TempDir()
	unused := map[string]time.Duration{}
	for i := range mostStates + 2 {
		unused[fmt.Sprintf("%s%02d", statePrefix, i)] = time.Duration(100-i) * time.Minute
	}
	makeStates(t, dir, unused)
	if !hasState(filepath.Join(dir, statePrefix+"00")) || hasState(filepath.Join(dir, statePrefix+"none")) {
		t.Error("hasState is wrong")
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, buildPrefix+"1"), 0o755), os.Mkdir(filepath.Join(dir, "sysroot"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := removeOldStates(dir, time.Now().Add(-24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	want := []string{statePrefix + "00"}
	for i := 4; i < mostStates+2; i++ {
		want = append(want, fmt.Sprintf("%s%02d", statePrefix, i))
	}
	wantFiles(t, dir, append(want, "sysroot")...)
}

// TestRemoveStatesOfOtherStarts has states that were used before and after the host started.
func TestRemoveStatesOfOtherStarts(t *testing.T) {
	dir := t.TempDir()
	makeStates(t, dir, map[string]time.Duration{"state-after": 9 * time.Minute, "state-before": 11 * time.Minute})
	if err := removeOldStates(dir, time.Now().Add(-10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, "state-after")

	// A state of now is of this start.
	started, err := hostStarted()
	if err != nil || time.Since(started) < time.Second || time.Since(started) > 20*365*24*time.Hour {
		t.Errorf("the host started at %v, %v", started, err)
	}
}

// TestRemoveOthersStates has states of three other images, one of which another process has locked, and of a folder that
// is no image.
func TestRemoveOthersStates(t *testing.T) {
	cache := t.TempDir()
	unused := map[string]time.Duration{"state-day": unusedTime - time.Hour, "state-old": unusedTime + time.Hour}
	in := func(name string) string { return filepath.Join(cache, name) }
	for _, name := range []string{"rxepeer-own", "rxepeer-other", "rxepeer-locked", "rxepeer-day", "elsewhere"} {
		makeStates(t, in(name), unused)
		if err := os.WriteFile(filepath.Join(in(name), manifestFile), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(in("rxepeer-day"), "state-old")); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockStates(t.Context(), in("rxepeer-locked"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := removeOthersStates(t.Context(), in("rxepeer-own")); err != nil {
		t.Error(err)
	}
	wantFiles(t, in("rxepeer-own"), manifestFile, "state-day", "state-old")
	wantFiles(t, in("elsewhere"), manifestFile, "state-day", "state-old")
	wantFiles(t, in("rxepeer-locked"), manifestFile, "state-day", "state-old", statesLock)
	wantFiles(t, in("rxepeer-other"), manifestFile, "state-day", statesLock)
	wantFiles(t, in("rxepeer-day"), manifestFile, "state-day")

	over, cancel := context.WithCancel(t.Context())
	cancel()
	makeStates(t, in("rxepeer-locked"), unused)
	if err := removeOthersStates(over, in("rxepeer-own")); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller's time is over: %v", err)
	}
}
