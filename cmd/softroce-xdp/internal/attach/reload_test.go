// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// An agent that was executed again waits for control for as long as another command has it, or until it is told to end.
func TestTakeControlWaits(t *testing.T) {
	require.Root(t)
	a := &attacher{App: &host.App{RunDir: t.TempDir()}}
	synctest.Test(t, func(t *testing.T) {
		job := &attachJob{attacher: a, name: "eth0"}
		other := testkit.Must1(loader.TakeControl(a.Options(), "eth0"))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ends := make(chan error, 1)
		start := func() {
			go func() {
				control, err := job.takeControl(ctx, slog.New(slog.DiscardHandler))
				if err == nil {
					control.Release()
				}
				ends <- err
			}()
			time.Sleep(3 * loader.DefaultPatience)
			select {
			case err := <-ends:
				t.Fatalf("takeControl ends while another command has control: %v", err)
			default:
			}
		}
		start()
		other.Release()
		testkit.Must(t, <-ends)

		other = testkit.Must1(loader.TakeControl(a.Options(), "eth0"))(t)
		defer other.Release()
		start()
		cancel()
		if err := <-ends; !errors.Is(err, context.Canceled) {
			t.Errorf("takeControl of an agent that is told to end: %v, want %v", err, context.Canceled)
		}
	})
}
