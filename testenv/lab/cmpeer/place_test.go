// SPDX-License-Identifier: Apache-2.0

package cmpeer_test

import (
	"context"
	"flag"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/oracle/sides"
)

var update = flag.Bool("update", false, "rewrite "+golden)

// golden has one of each message that the kernel sent in TestLinux, for rocev2/mad.
const golden = "../../../rocev2/mad/testdata/linux.pcap"

func TestMain(m *testing.M) { engines.Main(m) }

// firstOfEach keeps the first message of each kind that a machine sends.
func firstOfEach() func(frame []byte) bool {
	seen := map[mad.Attr]bool{}
	return func(frame []byte) bool {
		p, err := rocev2.ParseFrame(frame)
		if err != nil || p.BTH().DestQP() != mad.QPN || p.Src() != addresses[0].theirs {
			return false
		}
		h, err := mad.Parse(p.Payload())
		if err != nil || seen[h.Attr()] {
			return false
		}
		seen[h.Attr()] = true
		return true
	}
}

// Default ports: of rping and udaddy; of rdma_server and ucmatose.
const (
	rpingPort  = 7174
	samplePort = 7471
)

// addresses of both ends, by family.
var addresses = []struct{ ours, theirs netip.Addr }{
	{netip.MustParseAddr("10.79.0.9"), netip.MustParseAddr("10.79.0.1")},
	{netip.MustParseAddr("fd79::9"), netip.MustParseAddr("fd79::1")},
}

// place is a machine with rxe, and our engine on a host next to it.
type place struct {
	net  *rxepeer.Net
	vm   *rxepeer.VM
	us   *sides.EngineSide
	lose *faults.Switch
}

func newPlace(ctx context.Context, t *testing.T, change ...func(*testing.T, *rxepeer.Config)) *place {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a machine")
	}
	require.Root(t)
	if err := rxepeer.CheckHost(); err != nil {
		require.Skip(t, err.Error())
	}
	n, err := rxepeer.NewNet(1500)
	must(t, err)
	t.Cleanup(func() { n.Close() })
	prefix := func(a netip.Addr) netip.Prefix {
		bits := 24
		if a.Is6() {
			bits = 64
		}
		return netip.PrefixFrom(a, bits)
	}
	var ours, theirs []netip.Prefix
	for _, a := range addresses {
		ours, theirs = append(ours, prefix(a.ours)), append(theirs, prefix(a.theirs))
	}
	host, err := n.AddHost(rxepeer.HostConfig{Name: "cm", Addrs: ours})
	must(t, err)
	t.Cleanup(func() { checked(t, host.Close()) })
	p := &place{net: n}
	machine := rxepeer.Config{Name: "rxe", NICs: []rxepeer.NIC{{Net: n, Addrs: theirs}}}
	for _, f := range change {
		f(t, &machine)
	}
	p.vm, err = rxepeer.Boot(ctx, machine)
	must(t, err)
	t.Cleanup(func() { checked(t, p.vm.Close()) })
	t.Log(p.vm.Describe())
	p.us, err = sides.AttachEngine(host)
	must(t, err)
	t.Cleanup(func() { checked(t, p.us.Close()) })
	must(t, n.Do(func() error {
		var ports []faults.Port
		for _, name := range []string{host.Port(), rxepeer.TapName("rxe", 0)} {
			i, err := net.InterfaceByName(name)
			if err != nil {
				return err
			}
			ports = append(ports, faults.Port{Do: n.Do, Index: i.Index})
		}
		p.lose, err = faults.On(ports...)
		return err
	}))
	t.Cleanup(func() { checked(t, p.lose.Close()) })
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func checked(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// app makes one that the test ends.
func (p *place) app(ctx context.Context, t *testing.T, typ verbs.QPType) *cmpeer.App {
	t.Helper()
	a, err := cmpeer.New(ctx, p.us.Dev, typ)
	must(t, err)
	t.Cleanup(func() { checked(t, a.Close()) })
	return a
}

// explain ends a program of a test that failed, and shows what there is to see.
func (p *place) explain(t *testing.T, program *rxepeer.Proc) {
	if !t.Failed() {
		return
	}
	_ = program.Signal(unix.SIGKILL) // it may have ended
	stdout, stderr := program.Output()
	t.Logf("the program printed\n%s%s", stdout, stderr)
	if p.us.Dev == nil {
		return
	}
	for _, c := range p.us.Dev.Counters() {
		if c.Value != 0 {
			t.Logf("%-30s %d", c.Name, c.Value)
		}
	}
	t.Log(p.us.Log())
}

// client starts a program in the machine.
func (p *place) client(ctx context.Context, t *testing.T, argv ...string) *rxepeer.Proc {
	t.Helper()
	c, err := p.vm.StartCmd(ctx, rxepeer.Cmd{Argv: argv})
	must(t, err)
	return c
}

// server starts a program that listens by rdma_cm in the machine.
func (p *place) server(ctx context.Context, t *testing.T, argv ...string) *rxepeer.Proc {
	t.Helper()
	server := p.client(ctx, t, argv...)
	t.Cleanup(func() { _ = server.Signal(unix.SIGKILL) }) // it may have ended
	must(t, server.AwaitReady(ctx, rxepeer.Readiness{CM: true}))
	return server
}

// ended waits for a program and wants text in its output, count times.
func ended(ctx context.Context, t *testing.T, program *rxepeer.Proc, text string, count int) {
	t.Helper()
	res, err := program.Wait(ctx)
	if _, exited := rxepeer.IsExit(err); err != nil && !exited {
		t.Fatal(err)
	}
	if out := res.Stdout + res.Stderr; strings.Count(out, text) != count {
		t.Errorf("%v, and the program printed\n%s", err, out)
	}
}

// listen listens until the App is closed.
func listen(t *testing.T, a *cmpeer.App, space mad.PortSpace, port uint16) {
	t.Helper()
	must(t, a.Session.Listen(mad.IPServiceID(space, port), 0))
}

// bounded is the context of one exchange. An emulated machine on a busy host may be slow.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 3*time.Minute)
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
