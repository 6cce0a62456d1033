// SPDX-License-Identifier: Apache-2.0

package cmpeer_test

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/loss"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/oracle/self"
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
	us   *self.Side
	lose *loss.Switch
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
	p.us, err = self.Attach(host)
	must(t, err)
	t.Cleanup(func() { checked(t, p.us.Close()) })
	must(t, n.Do(func() error {
		var ports []loss.Port
		for _, name := range []string{host.Port(), rxepeer.TapName("rxe", 0)} {
			i, err := net.InterfaceByName(name)
			if err != nil {
				return err
			}
			ports = append(ports, loss.Port{Do: n.Do, Index: i.Index})
		}
		p.lose, err = loss.On(ports...)
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

// TestLinux has programs of Linux connect to our engine by the kernel's rdma_cm, and our engine
// to them.
func TestLinux(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	p := newPlace(ctx, t)
	if *update {
		c, err := p.net.Capture(golden, rxepeer.CaptureConfig{Iface: rxepeer.TapName("rxe", 0), Max: 100, Keep: firstOfEach()})
		must(t, err)
		defer func() {
			_, err := c.Stop()
			checked(t, err)
		}()
	}
	for _, a := range addresses {
		run := func(name string, f func(ctx context.Context, t *testing.T, ours, theirs netip.Addr)) {
			t.Run(name+", "+family(a.ours), func(t *testing.T) {
				ctx, cancel := bounded(ctx)
				defer cancel()
				f(ctx, t, a.ours, a.theirs)
			})
		}
		run("rping calls us", p.theyPing)
		run("we call rping", p.wePing)
		run("rdma_client calls us", p.sampleCalls)
		run("we call rdma_server", p.callSample)
		run("ucmatose calls us", p.matoseCalls)
		run("we call ucmatose", p.callMatose)
		run("udaddy calls us", p.daddyCalls)
		run("we call udaddy", p.callDaddy)
		run("nobody listens", p.nobody)
		run("we refuse", p.refuse)
		run("we refuse to resolve", p.refuseUD)
	}
	t.Run("10 % of messages lost", func(t *testing.T) {
		must(t, p.lose.Lose(0.1, rocev2.UDSendOnly))
		defer func() { checked(t, p.lose.Lose(0)) }()
		for range 5 {
			ctx, cancel := bounded(ctx)
			p.theyPing(ctx, t, addresses[0].ours, addresses[0].theirs)
			p.wePing(ctx, t, addresses[0].ours, addresses[0].theirs)
			cancel()
		}
		n, err := p.lose.Lost(rocev2.UDSendOnly)
		if checked(t, err); n == 0 {
			t.Error("nothing was lost")
		}
		t.Logf("%d messages were lost", n)
	})
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

// theyPing: rping in the machine is the client and checks what comes back.
func (p *place) theyPing(ctx context.Context, t *testing.T, ours, _ netip.Addr) {
	const count = 3
	a := cmpeer.Rping{App: p.app(ctx, t, verbs.RC)}
	listen(t, a.App, mad.PortTCP, rpingPort)
	client := p.client(ctx, t, "rping", "-c", "-v", "-V", "-C", "3", "-S", "601", "-a", ours.String())
	defer p.explain(t, client)
	must(t, a.Start())
	must(t, a.Accept())
	text, err := a.Serve(count)
	must(t, err)
	if !strings.HasPrefix(text, "rdma-ping-2: ") || len(text) != 601 {
		t.Errorf("the last text is %d bytes %.20q", len(text), text)
	}
	ended(ctx, t, client, "ping data: rdma-ping-", count)
	// The kernel does not repeat the DREQ of a program that has ended, so it may be lost for good.
	must(t, a.HangUp())
	must(t, a.Close())
}

// wePing: rping in the machine is the server and prints what we send.
func (p *place) wePing(ctx context.Context, t *testing.T, ours, theirs netip.Addr) {
	server := p.server(ctx, t, "rping", "-s", "-v", "-a", theirs.String(), "-C", "2")
	defer p.explain(t, server)
	a := cmpeer.Rping{App: p.app(ctx, t, verbs.RC)}
	must(t, a.Start())
	must(t, a.Dial(ours, theirs, rpingPort))
	must(t, a.Ping("first text from the engine\x00"))
	must(t, a.Ping("second text from the engine\x00"))
	must(t, a.HangUp())
	ended(ctx, t, server, "text from the engine", 2)
	must(t, a.Close())
}

// sampleCalls: rdma_client sends a message and receives one.
func (p *place) sampleCalls(ctx context.Context, t *testing.T, ours, _ netip.Addr) {
	a := p.app(ctx, t, verbs.RC)
	listen(t, a, mad.PortTCP, samplePort)
	client := p.client(ctx, t, "rdma_client", "-s", ours.String())
	defer p.explain(t, client)
	must(t, a.PostRecvs(1, cmpeer.SampleBytes))
	must(t, a.Accept())
	must(t, a.Recv(1, cmpeer.SampleBytes, false))
	must(t, a.Send(1, cmpeer.SampleBytes))
	ended(ctx, t, client, "rdma_client: end 0", 1)
	must(t, a.HangUp())
}

func (p *place) callSample(ctx context.Context, t *testing.T, ours, theirs netip.Addr) {
	server := p.server(ctx, t, "rdma_server", "-s", theirs.String())
	defer p.explain(t, server)
	a := p.app(ctx, t, verbs.RC)
	must(t, a.PostRecvs(1, cmpeer.SampleBytes))
	must(t, a.Dial(ours, theirs, samplePort))
	must(t, a.Send(1, cmpeer.SampleBytes))
	must(t, a.Recv(1, cmpeer.SampleBytes, false))
	must(t, a.HangUp())
	ended(ctx, t, server, "rdma_server: end 0", 1)
}

// matoseCalls: ucmatose receives messages and sends as many.
func (p *place) matoseCalls(ctx context.Context, t *testing.T, ours, _ netip.Addr) {
	a := p.app(ctx, t, verbs.RC)
	listen(t, a, mad.PortTCP, samplePort)
	client := p.client(ctx, t, "ucmatose", "-s", ours.String())
	defer p.explain(t, client)
	must(t, a.PostRecvs(cmpeer.Messages, cmpeer.MessageLen))
	must(t, a.Accept())
	must(t, a.Send(cmpeer.Messages, cmpeer.MessageLen))
	must(t, a.Recv(cmpeer.Messages, cmpeer.MessageLen, false))
	must(t, a.HangUp())
	ended(ctx, t, client, "return status 0", 1)
}

func (p *place) callMatose(ctx context.Context, t *testing.T, ours, theirs netip.Addr) {
	server := p.server(ctx, t, "ucmatose", "-b", theirs.String())
	defer p.explain(t, server)
	a := p.app(ctx, t, verbs.RC)
	must(t, a.PostRecvs(cmpeer.Messages, cmpeer.MessageLen))
	must(t, a.Dial(ours, theirs, samplePort))
	must(t, a.Recv(cmpeer.Messages, cmpeer.MessageLen, false))
	must(t, a.Send(cmpeer.Messages, cmpeer.MessageLen))
	must(t, a.HangUp())
	ended(ctx, t, server, "return status 0", 1)
}

// daddyCalls: udaddy resolves our queue pair, and sends it messages that come back.
func (p *place) daddyCalls(ctx context.Context, t *testing.T, ours, _ netip.Addr) {
	a := p.app(ctx, t, verbs.UD)
	listen(t, a, mad.PortUDP, rpingPort)
	client := p.client(ctx, t, "udaddy", "-s", ours.String())
	defer p.explain(t, client)
	must(t, a.PostRecvs(cmpeer.Messages, cmpeer.MessageLen))
	must(t, a.ServeUD())
	ended(ctx, t, client, "return status 0", 1)
}

func (p *place) callDaddy(ctx context.Context, t *testing.T, ours, theirs netip.Addr) {
	server := p.server(ctx, t, "udaddy", "-b", theirs.String())
	defer p.explain(t, server)
	a := p.app(ctx, t, verbs.UD)
	must(t, a.PostRecvs(cmpeer.Messages, cmpeer.MessageLen))
	must(t, a.CallUD(ours, theirs, rpingPort))
	ended(ctx, t, server, "return status 0", 1)
}

// nobody: the kernel refuses a port at which nothing listens.
func (p *place) nobody(ctx context.Context, t *testing.T, ours, theirs netip.Addr) {
	a := p.app(ctx, t, verbs.RC)
	var rejected *cm.RejectedError
	if err := a.Dial(ours, theirs, 9); !errors.As(err, &rejected) || rejected.Reason != mad.ReasonInvalidServiceID {
		t.Error(err)
	}
}

// refuse: rping reports that we rejected it.
func (p *place) refuse(ctx context.Context, t *testing.T, ours, _ netip.Addr) {
	a := p.app(ctx, t, verbs.RC)
	listen(t, a, mad.PortTCP, rpingPort)
	client := p.client(ctx, t, "rping", "-c", "-v", "-C", "1", "-a", ours.String())
	defer p.explain(t, client)
	req, err := a.Await(cm.Request)
	must(t, err)
	must(t, a.Session.Reject(req.ID, nil))
	ended(ctx, t, client, "RDMA_CM_EVENT_REJECTED", 1)
}

// refuseUD: udaddy is told that we name no queue pair.
func (p *place) refuseUD(ctx context.Context, t *testing.T, ours, theirs netip.Addr) {
	a := p.app(ctx, t, verbs.UD)
	listen(t, a, mad.PortUDP, rpingPort)
	client := p.client(ctx, t, "udaddy", "-s", ours.String())
	defer p.explain(t, client)
	req, err := a.Await(cm.ResolveRequest)
	must(t, err)
	if req.Service != mad.IPServiceID(mad.PortUDP, rpingPort) || req.SrcPort == 0 || req.Path.Remote.Addr != theirs {
		t.Errorf("%+v", req)
	}
	must(t, a.Session.Reject(req.ID, nil))
	ended(ctx, t, client, "event: RDMA_CM_EVENT_UNREACHABLE, error: 2", 1)
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
