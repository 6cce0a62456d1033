// SPDX-License-Identifier: Apache-2.0

package cmpeer_test

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// TestKernelDeviceComesAndGoes has an engine in the machine. Requests to a port without a listener are
// rejected by the kernel while it has an RDMA device on the interface, and by the engine otherwise.
func TestKernelDeviceComesAndGoes(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	p := newPlace(ctx, t, withProduct)
	vm := func(argv ...string) {
		t.Helper()
		if _, err := p.vm.Run(ctx, argv...); err != nil {
			t.Fatal(err)
		}
	}
	vm("softroce-xdp", "attach", "eth0")
	ours, theirs := addresses[0].ours, addresses[0].theirs
	engine := p.client(ctx, t, "softroce-xdp", "ping", "--listen", netip.AddrPortFrom(theirs, enginePort).String())
	defer p.explain(t, engine)
	awaitOutput(ctx, t, engine, "listening at", 1)

	p.awaitAnswer(ctx, t, "rx_cm_passed", "rx_cm_steered")
	vm("rdma", "link", "delete", "rxe0")
	p.awaitAnswer(ctx, t, "rx_cm_steered", "rx_cm_passed")
	vm("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth0")
	p.awaitAnswer(ctx, t, "rx_cm_passed", "rx_cm_steered")

	kernel := p.server(ctx, t, "rping", "-s", "-P", "-v", "-a", theirs.String())
	defer p.explain(t, kernel)
	for _, port := range []uint16{rpingPort, enginePort} { // both listen
		c := p.dial(ctx, t, ours, netip.AddrPortFrom(theirs, port))
		must(t, c.Ping(ctx, []byte("text\x00"), true))
		must(t, c.Close())
	}
}

// awaitAnswer calls a port without a listener until a request is rejected by the owner that counts in
// one counter and not in the other. A request between the two owners may stay without an answer.
func (p *place) awaitAnswer(ctx context.Context, t *testing.T, counts, not string) {
	t.Helper()
	for {
		if ctx.Err() != nil {
			t.Fatalf("no request was answered by the owner of %s", counts)
		}
		a, b := p.counter(ctx, t, counts), p.counter(ctx, t, not)
		app, err := cmpeer.New(ctx, p.us.Dev, verbs.RC)
		must(t, err)
		err = app.Dial(addresses[0].ours, addresses[0].theirs, 9)
		must(t, app.Close())
		var rejected *cm.RejectedError
		if errors.As(err, &rejected) {
			if rejected.Reason != mad.ReasonInvalidServiceID {
				t.Fatal(err)
			}
			if p.counter(ctx, t, counts) > a && p.counter(ctx, t, not) == b {
				return
			}
		} else if !errors.Is(err, cm.ErrTimeout) {
			t.Fatal(err)
		}
	}
}

// counter reads one of the machine.
func (p *place) counter(ctx context.Context, t *testing.T, name string) uint64 {
	t.Helper()
	res, err := p.vm.Run(ctx, "softroce-xdp", "stats", "eth0")
	must(t, err)
	for line := range strings.Lines(res.Stdout) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, err := strconv.ParseUint(f[1], 10, 64)
			must(t, err)
			return n
		}
	}
	return 0 // not counted yet
}
