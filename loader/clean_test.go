// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// Clean leaves the state of a lost interface to the process that has control of it.
func TestCleanNeedsControl(t *testing.T) {
	require.Root(t)
	o := Options{RunDir: t.TempDir(), PinRoot: t.TempDir(), Patience: time.Nanosecond}
	if err := writeState(o.RunDir, State{Interface: "eth0", Lost: "moved"}); err != nil {
		t.Fatal(err)
	}
	control, err := TakeControl(o, "eth0")
	if err != nil {
		t.Fatal(err)
	}
	if cleaned, err := Clean(o); len(cleaned) > 0 || !errors.Is(err, ErrBusy) {
		t.Errorf("another process has control: %v, %v", cleaned, err)
	}
	control.Release()
	if cleaned, err := Clean(o); len(cleaned) != 1 || err != nil {
		t.Errorf("%v, %v", cleaned, err)
	}
}
