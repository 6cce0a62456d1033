// SPDX-License-Identifier: Apache-2.0

package cmpeer_test

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// enginePort is that of the engine in the machine; the kernel's is rpingPort.
const enginePort = 7175

// withEngine adds the product and engineping to the machine.
func withEngine(t *testing.T, c *rxepeer.Config) {
	t.Helper()
	var err error
	c.Product, err = engines.Binary()
	must(t, err)
	bin := filepath.Join(t.TempDir(), "engineping")
	cmd := exec.Command("go", "build", "-o", bin, "./engineping")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.Files = map[string]string{"/usr/bin/engineping": bin}
}

// TestSharedInterface has rxe and an engine on one interface of the machine. Each message for queue pair 1
// goes to the one that it is for: both listen and both call, at the same time.
func TestSharedInterface(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	p := newPlace(ctx, t, withEngine)
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
	engine := p.client(ctx, t, "engineping", "-s", "-n", "3", "-C", "2")
	defer p.explain(t, engine)
	for i := range calls {
		for _, port := range []uint16{rpingPort, enginePort} {
			if port == enginePort {
				awaitOutput(ctx, t, engine, "engineping: listening", i+1)
			}
			a := cmpeer.Rping{App: p.app(ctx, t, verbs.RC)}
			must(t, a.Start())
			must(t, a.Dial(ours, theirs, port))
			must(t, a.Ping("first text\x00"))
			must(t, a.Ping("second text\x00"))
			must(t, a.HangUp())
			must(t, a.Close())
		}
	}
	ended(ctx, t, engine, `the last text was "second text"`, calls)
	// A persistent rping prints no texts, but sends each back, where Ping compares it.
	awaitOutput(ctx, t, kernel, "server DISCONNECT EVENT", calls)
}

// bothCall: rping and the engine of the machine call us at the same time.
func (p *place) bothCall(ctx context.Context, t *testing.T, ours, theirs netip.Addr) {
	first, second := cmpeer.Rping{App: p.app(ctx, t, verbs.RC)}, cmpeer.Rping{App: p.app(ctx, t, verbs.RC)}
	listen(t, first.App, mad.PortTCP, rpingPort)
	listen(t, second.App, mad.PortTCP, enginePort)
	must(t, first.Start())
	must(t, second.Start())
	kernel := p.client(ctx, t, "rping", "-c", "-v", "-V", "-C", "3", "-S", "601", "-a", ours.String())
	defer p.explain(t, kernel)
	engine := p.client(ctx, t, "engineping", "-C", "3", "-l", theirs.String(), "-a", ours.String())
	defer p.explain(t, engine)
	must(t, first.Accept())
	must(t, second.Accept())
	for _, a := range []cmpeer.Rping{first, second} {
		_, err := a.Serve(3)
		must(t, err)
	}
	ended(ctx, t, kernel, "ping data: rdma-ping-", 3)
	ended(ctx, t, engine, "engineping: done", 1)
	must(t, first.HangUp())
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
