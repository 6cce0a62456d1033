// SPDX-License-Identifier: Apache-2.0

package cmpeer_test

import (
	"bufio"
	"context"
	"io"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/rping"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

func options() []rdma.Option { return append(rping.Options(), rdma.WithAttr(cmpeer.Patient)) }

// dial connects to a server of rping.
func (p *place) dial(ctx context.Context, t *testing.T, ours netip.Addr, server netip.AddrPort) *rping.Client {
	t.Helper()
	conn, err := rdma.DialAddrPort(ctx, p.us.Dev, server, append(options(), rdma.WithLocal(ours))...)
	must(t, err)
	c, err := rping.NewClient(conn)
	must(t, err)
	return c
}

// listen listens until the test ends.
func (p *place) listen(ctx context.Context, t *testing.T, ours netip.Addr, port uint16) *rdma.Listener {
	t.Helper()
	l, err := rdma.Listen(ctx, p.us.Dev, netip.AddrPortFrom(ours, port).String(), options()...)
	must(t, err)
	t.Cleanup(func() { checked(t, l.Close()) })
	return l
}

// accept accepts a client of rping, whose connection ends with the test.
func accept(ctx context.Context, t *testing.T, l *rdma.Listener) *rping.Server {
	t.Helper()
	conn, err := l.Accept(ctx)
	must(t, err)
	s, err := rping.NewServer(conn)
	must(t, err)
	t.Cleanup(func() { checked(t, s.Close()) })
	return s
}

// theyPing: rping in the machine is the client and checks what comes back.
func (p *place) theyPing(ctx context.Context, t *testing.T, ours, _ netip.Addr) {
	const count = 3
	l, err := rdma.Listen(ctx, p.us.Dev, netip.AddrPortFrom(ours, rpingPort).String(), options()...)
	must(t, err)
	defer func() { checked(t, l.Close()) }()
	client := p.client(ctx, t, "rping", "-c", "-v", "-V", "-C", "3", "-S", "601", "-a", ours.String())
	defer p.explain(t, client)
	s := accept(ctx, t, l)
	for i := range count {
		text, err := s.Answer(ctx)
		must(t, err)
		if want := "rdma-ping-" + string(rune('0'+i)) + ": "; !strings.HasPrefix(string(text), want) || len(text) != 601 {
			t.Errorf("text %d is %d bytes %.20q", i, len(text), text)
		}
	}
	ended(ctx, t, client, "ping data: rdma-ping-", count)
}

// wePing: rping in the machine is the server and prints what we send.
func (p *place) wePing(ctx context.Context, t *testing.T, ours, theirs netip.Addr) {
	server := p.server(ctx, t, "rping", "-s", "-v", "-a", theirs.String(), "-C", "2")
	defer p.explain(t, server)
	c := p.dial(ctx, t, ours, netip.AddrPortFrom(theirs, rpingPort))
	must(t, c.Ping(ctx, []byte("first text from the engine\x00"), true))
	must(t, c.Ping(ctx, []byte("second text from the engine\x00"), true))
	must(t, c.Close())
	ended(ctx, t, server, "text from the engine", 2)
}

// testCommand has `softroce-xdp ping` in both roles, which opens the engine itself.
func (p *place) testCommand(ctx context.Context, t *testing.T) {
	must(t, p.us.CloseEngine())
	for _, a := range addresses {
		for name, f := range map[string]func(ctx context.Context, t *testing.T, ours, theirs netip.Addr){
			"rping calls softroce-xdp ping": p.theyPingCommand,
			"softroce-xdp ping calls rping": p.commandPings,
		} {
			t.Run(name+", "+family(a.ours), func(t *testing.T) {
				ctx, cancel := bounded(ctx)
				defer cancel()
				f(ctx, t, a.ours, a.theirs)
			})
		}
	}
	t.Run("softroce-xdp ping, and nobody listens", func(t *testing.T) {
		out, err := p.us.Product("ping", "-c", "1", addresses[0].theirs.String()+":9")
		if err == nil || !strings.Contains(out, "refuses the connection, because nobody listens at this port") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// commandPings: the command is the client.
func (p *place) commandPings(ctx context.Context, t *testing.T, _, theirs netip.Addr) {
	server := p.server(ctx, t, "rping", "-s", "-v", "-a", theirs.String(), "-S", "601")
	defer p.explain(t, server)
	out, err := p.us.Product("ping", "-c", "3", "-i", "0", "-s", "601", theirs.String())
	if err != nil || !strings.Contains(out, "3 round trips: 3 answered, 0 lost (0%), all data verified") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log(out)
	ended(ctx, t, server, "server ping data: softroce-ping-", 3)
}

// theyPingCommand: the command is the server.
func (p *place) theyPingCommand(ctx context.Context, t *testing.T, ours, _ netip.Addr) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd, out, err := p.us.Start(ctx, "ping", "--listen", ours.String())
	must(t, err)
	lines := bufio.NewScanner(out)
	awaitLine(t, lines, "listening at")
	client := p.client(ctx, t, "rping", "-c", "-v", "-V", "-C", "3", "-S", "601", "-a", ours.String())
	defer p.explain(t, client)
	awaitLine(t, lines, "disconnected after 3 round trips, the last one of 601 bytes")
	ended(ctx, t, client, "ping data: rdma-ping-", 3)
	must(t, cmd.Process.Signal(unix.SIGINT))
	_, err = io.Copy(io.Discard, out)
	must(t, err)
	must(t, cmd.Wait())
}

// awaitLine reads until a line has text. The end of the program ends it.
func awaitLine(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("no line with %q; %v", text, lines.Err())
}
