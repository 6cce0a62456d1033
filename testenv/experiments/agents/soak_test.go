// SPDX-License-Identifier: Apache-2.0

package agents_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/experiments/agents"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// A soak is short in CI, and long by `make soak`.
var (
	soakDuration = flag.Duration("soak.duration", 12*time.Second, "duration of the soak, at least two periods")
	soakPeriod   = flag.Duration("soak.period", 3*time.Second, "duration of the events of a period")
	soakHosts    = flag.Int("soak.hosts", 3, "hosts of the soak")
	soakSeed     = flag.Uint64("soak.seed", 0, "order of the events; 0: another one each time")
	soakBinary   = flag.String("soak.binary", "", "the product; empty: built from the sources")
	soakOut      = flag.String("soak.out", "", "file of the report; empty: only in the log of the test")
)

// Agents of several hosts with programs that come and go, and with faults of the network, transfer exact data and have no
// more after a period than after the first one. SIGINT ends the soak early with its verdict.
func TestSoak(t *testing.T) {
	require.Root(t)
	require.Command(t, "ip")
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, unix.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal ends the process
	c := agents.SoakConfig{Duration: *soakDuration, Period: *soakPeriod, Hosts: *soakHosts, Seed: *soakSeed, Binary: *soakBinary}
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	t.Logf("-soak.seed=%d has the same order of events", c.Seed)
	var err error
	if c.Binary == "" {
		if c.Binary, err = engines.Binary(); err != nil {
			t.Fatal(err)
		}
	}
	if c.Dir, err = os.MkdirTemp("", "softroce-soak-"); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(c.Dir)
	if err := os.Chmod(c.Dir, 0o755); err != nil { // the programs have another user
		t.Fatal(err)
	}
	c.Line, c.Event = func(line string) { t.Log(line) }, func(line string) { t.Log(line) }
	if *soakOut != "" {
		if err := os.MkdirAll(filepath.Dir(*soakOut), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(*soakOut)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c.Line = func(line string) {
			t.Log(line)
			fmt.Fprintln(f, line)
		}
	}
	r, err := agents.Soak(ctx, c)
	if err != nil {
		t.Fatal(err) // nothing has run
	}
	for _, p := range r.Problems {
		t.Error(p)
	}
	if len(r.Periods) < 2 && !r.Interrupted {
		t.Errorf("%d periods", len(r.Periods))
	}
}
