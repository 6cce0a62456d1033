// SPDX-License-Identifier: Apache-2.0

package cmpeer_test

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// What ib_send_bw sends.
const (
	perftestMessages = 100
	perftestSize     = 2001
)

// TestPerftestPair has both ends on one device.
func TestPerftestPair(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dev, err := nic.OpenLoopback(nic.Options{})
	must(t, err)
	defer dev.Close()
	here := netip.MustParseAddr("127.0.0.1")
	server, client := newPerftest(ctx, t, dev), newPerftest(ctx, t, dev)
	listen(t, server.Control, mad.PortTCP, cmpeer.PerftestPort)
	served := make(chan error, 1)
	go func() { served <- server.Serve(cmpeer.PerftestPort) }()
	err = client.Call(here, here, cmpeer.PerftestPort)
	if e := <-served; err != nil || e != nil {
		t.Errorf("client: %v, server: %v", err, e)
	}
}

func newPerftest(ctx context.Context, t *testing.T, dev cmpeer.Device) *cmpeer.Perftest {
	t.Helper()
	p := &cmpeer.Perftest{Messages: perftestMessages, Size: perftestSize}
	for _, a := range []**cmpeer.App{&p.Control, &p.Data} {
		var err error
		*a, err = cmpeer.New(ctx, dev, verbs.RC)
		must(t, err)
		t.Cleanup(func() { checked(t, (*a).Close()) })
	}
	return p
}

// TestPerftest runs ib_send_bw -R of Linux against our engine, as client and as server.
func TestPerftest(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	p := newPlace(ctx, t)
	for _, a := range addresses {
		argv := []string{"ib_send_bw", "-R", "-F", "-n", strconv.Itoa(perftestMessages), "-s", strconv.Itoa(perftestSize)}
		if a.ours.Is6() {
			argv = append(argv, "--ipv6-addr")
		}
		t.Run("ib_send_bw calls us, "+family(a.ours), func(t *testing.T) {
			ctx, cancel := bounded(ctx)
			defer cancel()
			us := newPerftest(ctx, t, p.us.Dev)
			listen(t, us.Control, mad.PortTCP, cmpeer.PerftestPort)
			client := p.client(ctx, t, append(argv, a.ours.String())...)
			defer p.explain(t, client)
			must(t, us.Serve(cmpeer.PerftestPort))
			reported(ctx, t, client)
		})
		t.Run("we call ib_send_bw, "+family(a.ours), func(t *testing.T) {
			ctx, cancel := bounded(ctx)
			defer cancel()
			server := p.server(ctx, t, argv...)
			defer p.explain(t, server)
			us := newPerftest(ctx, t, p.us.Dev)
			must(t, us.Call(a.ours, a.theirs, cmpeer.PerftestPort))
			reported(ctx, t, server)
		})
	}
}

// reported waits for the end of ib_send_bw, which must be a success with a report of all messages.
func reported(ctx context.Context, t *testing.T, program *rxepeer.Proc) {
	t.Helper()
	res, err := program.Wait(ctx)
	if err != nil {
		t.Fatalf("%v, and ib_send_bw printed\n%s%s", err, res.Stdout, res.Stderr)
	}
	for line := range strings.Lines(res.Stdout) {
		f := strings.Fields(line)
		if len(f) == 5 && f[0] == strconv.Itoa(perftestSize) && f[1] == strconv.Itoa(perftestMessages) {
			t.Log(strings.TrimSpace(line))
			return
		}
	}
	t.Errorf("ib_send_bw has no report:\n%s%s", res.Stdout, res.Stderr)
}
