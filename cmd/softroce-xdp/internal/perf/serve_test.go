// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// served starts a server without a device, which lends no memory, and returns its
// address.
func served(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Serve(ctx, l, nil, 0, nil, slog.New(slog.NewTextHandler(io.Discard, nil))) }()
	t.Cleanup(func() {
		cancel()
		testkit.Must(t, testkit.Receive(t, "the server ends after its context", ended))
	})
	return l.Addr().String()
}

func dialed(t *testing.T, addr string) net.Conn {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// answered asks for a run and returns why there is none.
func answered(t *testing.T, c net.Conn) string {
	conn := newControlConn(t.Context(), c)
	p := goodPlan()
	_ = conn.send(message{Plan: &p, Addr: netip.MustParseAddr("10.0.0.1"), Pairs: make([]pair, 1)})
	_, err := conn.receive(answerTime / 3)
	if err == nil {
		t.Fatal("a run without memory")
	}
	return err.Error()
}

// Clients that say nothing do not keep the server from others.
func TestSilentClient(t *testing.T) {
	addr := served(t)
	for range 3 {
		dialed(t, addr)
	}
	if got := answered(t, dialed(t, addr)); !strings.Contains(got, "larger --memory") {
		t.Error(got)
	}
}

// So many that there is no room for another do, until one of them leaves.
func TestManySilentClients(t *testing.T) {
	addr := served(t)
	var silent []net.Conn
	for range maxClients {
		silent = append(silent, dialed(t, addr))
	}
	c := dialed(t, addr)
	time.AfterFunc(100*time.Millisecond, func() { silent[3].Close() })
	if got := answered(t, c); !strings.Contains(got, "larger --memory") {
		t.Error(got)
	}
}

// The server ends although a client waits for room: served waits for that.
func TestEndsWithoutRoom(t *testing.T) {
	for range 20 { // the waiting client is accepted in some of them
		t.Run("", func(t *testing.T) {
			addr := served(t)
			for range maxClients + 1 {
				dialed(t, addr)
			}
		})
	}
}
