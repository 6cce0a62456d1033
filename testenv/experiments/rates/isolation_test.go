// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// quick is an experiment that a shared machine with two cores keeps up with.
var quick = IsolationConfig{RateA: 40e6, RateB: 160e6, Window: 256, Warmup: 300 * time.Millisecond, Measure: 600 * time.Millisecond}

// nothing is a product that does nothing.
type nothing struct{}

func (nothing) Attach([]*topo.Host) error     { return nil }
func (nothing) Detach() error                 { return nil }
func (nothing) Rows() ([]IsolationRow, error) { return nil, nil }

// oracle knows the bottlenecks, and shapes at the sender to 97 % of each: what a
// perfect product would do. It shows that the limits can be met.
type oracle struct {
	hosts    []*topo.Host
	rate     [2]uint64
	detached bool
}

func (o *oracle) tc(args ...string) error {
	out, err := o.hosts[0].Command("tc", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("tc %s: %s, %w", strings.Join(args, " "), out, err)
	}
	return nil
}

func (o *oracle) class(verb string, i int) error {
	o.rate[i] = o.hosts[1+i].Port().Bottleneck().RateBPS
	// A bucket of 10 ms makes up for the stalls of a shared machine.
	bucket := fmt.Sprint(max(o.rate[i]/8/100, 6000))
	return o.tc("class", verb, "dev", topo.IfName, "parent", "1:", "classid", fmt.Sprintf("1:%d", i+1),
		"htb", "rate", fmt.Sprintf("%dbit", o.rate[i]*97/100), "burst", bucket, "cburst", bucket)
}

func (o *oracle) Attach(hosts []*topo.Host) error {
	o.hosts = hosts
	if err := o.tc("qdisc", "add", "dev", topo.IfName, "root", "handle", "1:", "htb"); err != nil {
		return err
	}
	for i := range 2 {
		if err := o.class("add", i); err != nil {
			return err
		}
		err := o.tc("filter", "add", "dev", topo.IfName, "parent", "1:", "protocol", "ip", "u32",
			"match", "ip", "dst", hosts[1+i].IPv4().String(), "flowid", fmt.Sprintf("1:%d", i+1))
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *oracle) Detach() error {
	o.detached = true
	return o.tc("qdisc", "del", "dev", topo.IfName, "root")
}

func (o *oracle) Rows() (rows []IsolationRow, err error) {
	for i := range 2 {
		if now := o.hosts[1+i].Port().Bottleneck().RateBPS; now != o.rate[i] {
			if err := o.class("change", i); err != nil {
				return nil, err
			}
		}
		rows = append(rows, IsolationRow{Dest: o.hosts[1+i].IPv4(), TxNS: 5e6, RxNS: 3e6, RateBPS: o.rate[i] * 97 / 100, Case: 4})
	}
	return rows, nil
}

func runIsolation(t *testing.T, p Product) *Result {
	t.Helper()
	topo.RequireRoot(t)
	var r *Result
	for range require.Tries(4) { // other work on this machine may spoil a run
		var err error
		if r, err = RunIsolation(t.Context(), quick, p); err != nil {
			t.Fatal(err)
		}
		if r.Valid() {
			break
		}
		t.Logf("spoilt: %s", r.Failures()[0])
	}
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", b.String())
	return r
}

func TestNothingMissesTheLimits(t *testing.T) {
	r := runIsolation(t, nothing{})
	failures := strings.Join(r.Failures(), "\n")
	for _, want := range []string{"receiver A: mean queue", "receiver B: mean queue"} {
		if !strings.Contains(failures, want) {
			require.Missed(t, "no %q among the failures of a product that does nothing:\n%s", want, failures)
		}
	}
	// What waits at the bottleneck is what the sender's socket may have in flight.
	if q := r.Phases[0].Dest[0].QueueMean; q < sendBuffer/3 || q > 1.1*sendBuffer {
		require.Missed(t, "queue at A without the product is %.0f bytes; the sender may have %d in flight", q, sendBuffer)
	}
	if got := r.Phases[2].Dest[0].RateBPS; got != quick.RateA/10 {
		t.Errorf("phase 3 ran with A at %d bit/s, want a tenth of %d", got, quick.RateA)
	}
}

func TestOracleMeetsTheLimits(t *testing.T) {
	o := &oracle{}
	r := runIsolation(t, o)
	if f := r.Failures(); len(f) > 0 {
		require.Missed(t, "missed:\n%s", strings.Join(f, "\n"))
	}
	if !o.detached || r.Decided[0][4] == 0 || r.Phases[1].Dest[1].TxMean != 5*time.Millisecond || r.Phases[0].Dest[0].TxMean != 0 {
		t.Errorf("detached %v, decided %v, %+v", o.detached, r.Decided, r.Phases)
	}
	var b bytes.Buffer
	if err := r.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("PERDEST_OUT"); dir != "" {
		if err := os.WriteFile(dir+"/oracle.svg", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := xml.Unmarshal(b.Bytes(), new(struct{})); err != nil {
		t.Error(err)
	}
}

type failing struct {
	attach, rows error
	detached     *bool
}

func (f failing) Attach([]*topo.Host) error     { return f.attach }
func (f failing) Rows() ([]IsolationRow, error) { return nil, f.rows }
func (f failing) Detach() error                 { *f.detached = true; return nil }

func TestProductErrorsEndTheExperiment(t *testing.T) {
	topo.RequireRoot(t)
	c := quick
	c.Warmup, c.Measure = 20*time.Millisecond, 100*time.Millisecond
	broken := errors.New("broken")
	detached := false
	if _, err := RunIsolation(t.Context(), c, failing{attach: broken, detached: &detached}); !errors.Is(err, broken) || detached {
		t.Errorf("attach fails: %v, detached %v; want the error and no detach", err, detached)
	}
	if _, err := RunIsolation(t.Context(), c, failing{rows: broken, detached: &detached}); !errors.Is(err, broken) || !detached {
		t.Errorf("reading fails: %v, detached %v; want the error and a detach", err, detached)
	}
	c.Measure = testkit.Patience // only the context ends it
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	if _, err := RunIsolation(ctx, c, nothing{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("context ends: %v", err)
	}
}

func TestIsolationFigures(t *testing.T) {
	base := time.Unix(0, 0)
	var samples []Sample
	for i := range 101 { // 10 ms apart: 1250 bytes each are 1 Mbit/s
		var s Sample
		s.Queue[1] = topo.QueueStats{At: base.Add(time.Duration(i) * 10 * time.Millisecond), Sent: uint64(i) * 1250, Backlog: uint32(i), Drops: uint32(2 * i)}
		if i == 50 {
			s.Rows[1] = &IsolationRow{TxNS: 5, RxNS: 3}
		}
		samples = append(samples, s)
	}
	got := figures(samples, 1, 2e6)
	want := Figures{RateBPS: 2e6, PassedBPS: 1e6, Fill: .5, QueueMean: 50, QueueP99: 99, Drops: 200, TxMean: 5, RxMean: 3}
	if got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}
