// SPDX-License-Identifier: Apache-2.0

package cmpeer_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

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
		var n uint64
		for round := 0; round < 5 || n == 0 && round < 50; round++ { // few messages may all arrive
			ctx, cancel := bounded(ctx)
			p.theyPing(ctx, t, addresses[0].ours, addresses[0].theirs)
			p.wePing(ctx, t, addresses[0].ours, addresses[0].theirs)
			cancel()
			var err error
			n, err = p.lose.Lost(rocev2.UDSendOnly)
			checked(t, err)
		}
		if n == 0 {
			t.Error("nothing was lost")
		}
		t.Logf("%d messages were lost", n)
	})
	p.testCommand(ctx, t)
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
