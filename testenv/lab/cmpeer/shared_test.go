// SPDX-License-Identifier: Apache-2.0

package cmpeer_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/rping"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// enginePort is that of the engine in the machine; the kernel's is rpingPort.
const enginePort = 7175

// withProduct adds the product to the machine.
func withProduct(t *testing.T, c *rxepeer.Config) {
	t.Helper()
	var err error
	c.Product, err = engines.Binary()
	must(t, err)
}

// TestSharedInterface has rxe and an engine on one interface of the machine. Each message for queue pair 1
// goes to the one that it is for: both listen and both call, at the same time.
func TestSharedInterface(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	p := newPlace(ctx, t, withProduct)
	if _, err := p.vm.Run(ctx, "softroce-xdp", "attach", "eth0"); err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		run := func(name string, f func(ctx context.Context, t *testing.T, ours, theirs netip.Addr)) {
			t.Run(name+", "+family(a.ours), func(t *testing.T) {
				ctx, cancel := bounded(ctx)
				defer cancel()
				f(ctx, t, a.ours, a.theirs)
			})
		}
		run("both are called", p.callBoth)
		run("both call", p.bothCall)
	}
	p.wantSteered(ctx, t)
}

// callBoth calls rping and the engine of the machine, in turn over and over while both listen.
func (p *place) callBoth(ctx context.Context, t *testing.T, ours, theirs netip.Addr) {
	const calls = 3
	kernel := p.server(ctx, t, "rping", "-s", "-P", "-v", "-a", theirs.String())
	defer p.explain(t, kernel)
	engine := p.client(ctx, t, "softroce-xdp", "ping", "--listen", netip.AddrPortFrom(theirs, enginePort).String())
	defer p.explain(t, engine)
	awaitOutput(ctx, t, engine, "listening at", 1)
	for range calls {
		for _, port := range []uint16{rpingPort, enginePort} {
			c := p.dial(ctx, t, ours, netip.AddrPortFrom(theirs, port))
			must(t, c.Ping(ctx, []byte("first text\x00"), true))
			must(t, c.Ping(ctx, []byte("second text\x00"), true))
			must(t, c.Close())
		}
	}
	awaitOutput(ctx, t, engine, "disconnected after 2 round trips, the last one of 12 bytes", calls)
	must(t, engine.Signal(unix.SIGINT))
	ended(ctx, t, engine, ": connected", calls)
	// A persistent rping prints no texts, but sends each back, where Ping compares it.
	awaitOutput(ctx, t, kernel, "server DISCONNECT EVENT", calls)
}

// bothCall: rping and the engine of the machine call us at the same time.
func (p *place) bothCall(ctx context.Context, t *testing.T, ours, theirs netip.Addr) {
	first, second := p.listen(ctx, t, ours, rpingPort), p.listen(ctx, t, ours, enginePort)
	kernel := p.client(ctx, t, "rping", "-c", "-v", "-V", "-C", "3", "-S", "601", "-a", ours.String())
	defer p.explain(t, kernel)
	engine := p.client(ctx, t, "softroce-xdp", "ping", "-c", "3", "-i", "0", netip.AddrPortFrom(ours, enginePort).String())
	defer p.explain(t, engine)
	a, b := accept(ctx, t, first), accept(ctx, t, second)
	for range 3 {
		for _, s := range []*rping.Server{a, b} {
			_, err := s.Answer(ctx)
			must(t, err)
		}
	}
	ended(ctx, t, kernel, "ping data: rdma-ping-", 3)
	ended(ctx, t, engine, "3 round trips: 3 answered, 0 lost (0%), all data verified", 1)
}

// wantSteered wants messages of both kinds counted in the machine.
func (p *place) wantSteered(ctx context.Context, t *testing.T) {
	t.Helper()
	res, err := p.vm.Run(ctx, "softroce-xdp", "stats", "eth0")
	must(t, err)
	for _, name := range []string{"rx_cm_steered", "rx_cm_passed"} {
		found := false
		for line := range strings.Lines(res.Stdout) {
			f := strings.Fields(line)
			found = found || len(f) > 1 && f[0] == name && f[1] != "0"
		}
		if !found {
			t.Errorf("%s is not counted:\n%s", name, res.Stdout)
		}
	}
}

// awaitOutput waits until a program has printed text count times.
func awaitOutput(ctx context.Context, t *testing.T, program *rxepeer.Proc, text string, count int) {
	t.Helper()
	for {
		out, errs := program.Output()
		if strings.Count(string(out)+string(errs), text) >= count {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%q did not come %d times:\n%s%s", text, count, out, errs)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
