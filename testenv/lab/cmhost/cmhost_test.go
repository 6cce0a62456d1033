// SPDX-License-Identifier: Apache-2.0

package cmhost_test

import (
	"context"
	"errors"
	"flag"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmhost"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/oracle/self"
)

var update = flag.Bool("update", false, "rewrite "+golden)

// golden has one of each message that the kernel sent in TestLinux, for rocev2/mad.
const golden = "../../../rocev2/mad/testdata/linux.pcap"

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

// rpingPort is the default of rping, ucmatose and udaddy.
const rpingPort = 7174

// addresses of both ends, by family.
var addresses = []struct{ ours, theirs netip.Addr }{
	{netip.MustParseAddr("10.79.0.9"), netip.MustParseAddr("10.79.0.1")},
	{netip.MustParseAddr("fd79::9"), netip.MustParseAddr("fd79::1")},
}

// place is a machine with rxe, and our engine with a connection manager on a host next to it.
type place struct {
	net  *rxepeer.Net
	vm   *rxepeer.VM
	us   *self.Side
	host *cmhost.Host
}

func newPlace(ctx context.Context, t *testing.T) *place {
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
	p.vm, err = rxepeer.Boot(ctx, rxepeer.Config{Name: "rxe", NICs: []rxepeer.NIC{{Net: n, Addrs: theirs}}})
	must(t, err)
	t.Cleanup(func() { checked(t, p.vm.Close()) })
	p.us, err = self.Attach(host)
	must(t, err)
	t.Cleanup(func() { checked(t, p.us.Close()); engines.RemoveBinary() })
	p.host, err = cmhost.Open(host, cm.Config{})
	must(t, err)
	t.Cleanup(func() { checked(t, p.host.Close()) })
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
	run := func(name string, f func(t *testing.T)) {
		if !t.Run(name, f) {
			t.FailNow() // events that are left would confuse the others
		}
	}
	for _, a := range addresses {
		run("rping calls us, "+family(a.ours), func(t *testing.T) { p.theyPing(ctx, t, a.ours) })
		run("we call rping, "+family(a.ours), func(t *testing.T) { p.wePing(ctx, t, a.ours, a.theirs) })
		run("nobody listens, "+family(a.ours), func(t *testing.T) { p.nobody(ctx, t, a.ours, a.theirs) })
		run("we resolve udaddy, "+family(a.ours), func(t *testing.T) { p.resolve(ctx, t, a.ours, a.theirs) })
	}
	a := addresses[0]
	run("udaddy asks us", func(t *testing.T) { p.asked(ctx, t, a.ours) })
	run("we refuse", func(t *testing.T) { p.refuse(ctx, t, a.ours) })
	run("10 % of messages lost", func(t *testing.T) {
		p.host.Loss.Store(100)
		defer p.host.Loss.Store(0)
		for range 5 {
			p.theyPing(ctx, t, a.ours)
			p.wePing(ctx, t, a.ours, a.theirs)
		}
	})
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

// listen listens until the test ends.
func (p *place) listen(t *testing.T, id mad.ServiceID) {
	t.Helper()
	must(t, p.host.Do(func(m *cm.Manager, _ int64) error { return m.Listen(id, 0) }))
	t.Cleanup(func() {
		checked(t, p.host.Do(func(m *cm.Manager, _ int64) error { m.Unlisten(id); return nil }))
	})
}

// theyPing: rping in the machine is the client and checks what comes back.
func (p *place) theyPing(ctx context.Context, t *testing.T, ours netip.Addr) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	id := mad.IPServiceID(mad.PortTCP, rpingPort)
	must(t, p.host.Do(func(m *cm.Manager, _ int64) error { return m.Listen(id, 0) }))
	defer func() {
		checked(t, p.host.Do(func(m *cm.Manager, _ int64) error { m.Unlisten(id); return nil }))
	}()
	const count = 3
	client, err := p.vm.StartCmd(ctx, rxepeer.Cmd{Argv: []string{"rping", "-c", "-v", "-V", "-C", "3", "-S", "601", "-a", ours.String()}})
	must(t, err)
	defer p.explain(t, client)
	req, err := await(ctx, p.host.Events(), cm.Request)
	must(t, err)
	r, err := newRping(ctx, p.us.Dev)
	must(t, err)
	defer func() { checked(t, r.close()) }()
	path := req.Path
	path.Local.QPN, path.Remote.PSN = r.qp.QPN(), 0x111
	must(t, path.Connect(r.qp))
	must(t, p.host.Do(func(m *cm.Manager, now int64) error { return m.Accept(now, req.ID, path, nil) }))
	_, err = await(ctx, p.host.Events(), cm.Established)
	must(t, err)
	text, err := r.serve(count)
	must(t, err)
	if !strings.HasPrefix(text, "rdma-ping-2: ") || len(text) != 601 {
		t.Errorf("the last text is %d bytes %.20q", len(text), text)
	}
	res, err := client.Wait(ctx)
	must(t, err)
	// The kernel does not repeat the DREQ of a program that has ended, so it may be lost for good.
	must(t, p.host.Do(func(m *cm.Manager, now int64) error {
		if s, _ := m.State(req.ID); s != cm.StateEstablished {
			return nil
		}
		return m.Disconnect(now, req.ID, nil)
	}))
	_, err = await(ctx, p.host.Events(), cm.Disconnected)
	must(t, err)
	_, err = await(ctx, p.host.Events(), cm.Gone)
	must(t, err)
	if strings.Count(res.Stdout, "ping data: rdma-ping-") != count {
		t.Errorf("rping printed\n%s%s", res.Stdout, res.Stderr)
	}
}

// connectParams are for a connection to the machine.
func connectParams(ours, theirs netip.Addr, port uint16, qpn uint32) cm.ConnectParams {
	a := verbs.DefaultAttr()
	a.MaxRdAtomic, a.MaxDestRdAtomic = 1, 1
	return cm.ConnectParams{
		Local: ours, Peer: theirs, Service: mad.IPServiceID(mad.PortTCP, port), SrcPort: 40000, QPN: qpn, PSN: 0x222, Attr: a,
	}
}

func (p *place) connect(c cm.ConnectParams) (id cm.ID, err error) {
	err = p.host.Do(func(m *cm.Manager, now int64) error {
		id, err = m.Connect(now, c)
		return err
	})
	return id, err
}

// server starts a program that listens by rdma_cm in the machine.
func (p *place) server(ctx context.Context, t *testing.T, argv ...string) *rxepeer.Proc {
	t.Helper()
	server, err := p.vm.StartCmd(ctx, rxepeer.Cmd{Argv: argv})
	must(t, err)
	t.Cleanup(func() { _ = server.Signal(unix.SIGKILL) }) // it may have ended
	must(t, server.AwaitReady(ctx, rxepeer.Readiness{CM: true}))
	return server
}

// wePing: rping in the machine is the server and prints what we send.
func (p *place) wePing(ctx context.Context, t *testing.T, ours, theirs netip.Addr) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	server := p.server(ctx, t, "rping", "-s", "-v", "-a", theirs.String(), "-C", "2")
	defer p.explain(t, server)
	r, err := newRping(ctx, p.us.Dev)
	must(t, err)
	defer func() { checked(t, r.close()) }()
	id, err := p.connect(connectParams(ours, theirs, rpingPort, r.qp.QPN()))
	must(t, err)
	rep, err := await(ctx, p.host.Events(), cm.Reply)
	must(t, err)
	must(t, rep.Path.Connect(r.qp))
	must(t, p.host.Do(func(m *cm.Manager, now int64) error { return m.Ready(now, id, nil) }))
	_, err = await(ctx, p.host.Events(), cm.Established)
	must(t, err)
	must(t, r.ping("first text from the engine\x00"))
	must(t, r.ping("second text from the engine\x00"))
	must(t, p.host.Do(func(m *cm.Manager, now int64) error { return m.Disconnect(now, id, nil) }))
	_, err = await(ctx, p.host.Events(), cm.Disconnected)
	must(t, err)
	_, err = await(ctx, p.host.Events(), cm.Gone)
	must(t, err)
	res, err := server.Wait(ctx)
	if _, exited := rxepeer.IsExit(err); err != nil && !exited {
		t.Fatal(err)
	}
	for _, want := range []string{"first text from the engine", "second text from the engine"} {
		if !strings.Contains(res.Stdout, want) {
			t.Errorf("rping printed\n%s%s", res.Stdout, res.Stderr)
		}
	}
}

// nobody: the kernel refuses a port at which nothing listens.
func (p *place) nobody(ctx context.Context, t *testing.T, ours, theirs netip.Addr) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, err := p.connect(connectParams(ours, theirs, 9, 0x77))
	must(t, err)
	e, err := await(ctx, p.host.Events(), cm.Failed)
	must(t, err)
	var rejected *cm.RejectedError
	if !errors.As(e.Err, &rejected) || rejected.Reason != mad.ReasonInvalidServiceID {
		t.Errorf("%v", e.Err)
	}
	_, err = await(ctx, p.host.Events(), cm.Gone)
	must(t, err)
}

// resolve asks the kernel for the UD queue pair of a program.
func (p *place) resolve(ctx context.Context, t *testing.T, ours, theirs netip.Addr) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	p.server(ctx, t, "udaddy", "-b", theirs.String())
	must(t, p.host.Do(func(m *cm.Manager, now int64) error {
		_, err := m.Resolve(now, cm.ResolveParams{Local: ours, Peer: theirs, Service: mad.IPServiceID(mad.PortUDP, rpingPort), SrcPort: 40000})
		return err
	}))
	e, err := await(ctx, p.host.Events(), cm.Resolved)
	must(t, err)
	if r := e.Path.Remote; r.Addr != theirs || r.QPN < 2 || r.QKey == 0 {
		t.Errorf("resolved as %+v", r)
	}
	_, err = await(ctx, p.host.Events(), cm.Gone)
	must(t, err)
}

// refuse: rping reports that we rejected it.
func (p *place) refuse(ctx context.Context, t *testing.T, ours netip.Addr) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	p.listen(t, mad.IPServiceID(mad.PortTCP, rpingPort))
	client, err := p.vm.StartCmd(ctx, rxepeer.Cmd{Argv: []string{"rping", "-c", "-v", "-C", "1", "-a", ours.String()}})
	must(t, err)
	req, err := await(ctx, p.host.Events(), cm.Request)
	must(t, err)
	must(t, p.host.Do(func(m *cm.Manager, now int64) error { return m.Reject(now, req.ID, nil) }))
	_, err = await(ctx, p.host.Events(), cm.Gone)
	must(t, err)
	res, err := client.Wait(ctx)
	if _, exited := rxepeer.IsExit(err); !exited || !strings.Contains(res.Stdout+res.Stderr, "RDMA_CM_EVENT_REJECTED") {
		t.Errorf("%v\n%s%s", err, res.Stdout, res.Stderr)
	}
}

// asked: the kernel asks us for the UD queue pair of a port, and its program is told that we refuse.
func (p *place) asked(ctx context.Context, t *testing.T, ours netip.Addr) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	p.listen(t, mad.IPServiceID(mad.PortUDP, rpingPort))
	client, err := p.vm.StartCmd(ctx, rxepeer.Cmd{Argv: []string{"udaddy", "-s", ours.String()}})
	must(t, err)
	defer p.explain(t, client)
	req, err := await(ctx, p.host.Events(), cm.ResolveRequest)
	must(t, err)
	if req.Service != mad.IPServiceID(mad.PortUDP, rpingPort) || req.SrcPort == 0 || req.Path.Remote.Addr != addresses[0].theirs {
		t.Errorf("%+v", req)
	}
	must(t, p.host.Do(func(m *cm.Manager, now int64) error { return m.Reject(now, req.ID, nil) }))
	_, err = await(ctx, p.host.Events(), cm.Gone)
	must(t, err)
	res, err := client.Wait(ctx)
	if err != nil {
		if _, exited := rxepeer.IsExit(err); !exited {
			t.Fatal(err)
		}
	}
	if !strings.Contains(res.Stdout+res.Stderr, "event: RDMA_CM_EVENT_UNREACHABLE, error: 2") {
		t.Errorf("udaddy printed\n%s%s", res.Stdout, res.Stderr)
	}
}
