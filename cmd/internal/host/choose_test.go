// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// serving returns an App whose run directory has the sockets of these interfaces.
func serving(t *testing.T, names ...string) *App {
	a := &App{RunDir: t.TempDir(), PinRoot: t.TempDir()}
	for _, name := range names {
		testkit.Must(t, os.WriteFile(proto.SocketPath(a.RunDir, name), nil, 0o600))
	}
	return a
}

// A client takes the one of several interfaces by which the route to the host leads.
func TestPick(t *testing.T) {
	for _, peer := range []string{"127.0.0.1:7174", "[::1]:7174", "localhost:7174"} {
		if got, err := pick(t.Context(), []string{"none0", "lo"}, peer); got != "lo" || err != nil {
			t.Errorf("%s: %q, %v", peer, got, err)
		}
	}
}

// A command without --dev takes the only interface, or the only one of this network namespace.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		what   string
		served []string
		flags  EngineFlags
		want   string
	}{
		{"an interface is named", []string{"none0", "none1"}, EngineFlags{Iface: "none1", Peer: "127.0.0.1:7174"}, "none1"},
		{"there is one, and the route leads by another", []string{"none0"}, EngineFlags{Peer: "127.0.0.1:7174"}, "none0"},
		{"one is of this network namespace", []string{"none0", "lo"}, EngineFlags{}, "lo"},
	} {
		a := serving(t, c.served...)
		if err := c.flags.choose(t.Context(), a); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := c.flags.Served(a); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// Without --dev and a route that decides, the error lists the interfaces.
func TestChooseRefuses(t *testing.T) {
	for peer, want := range map[string]string{
		"":                "several interfaces are attached (none0, none1): choose one with --dev",
		"127.0.0.1:7174":  "(none0, none1), and the route to 127.0.0.1:7174 leads by lo: choose one with --dev",
		"127.0.0.1:wrong": "and the route to 127.0.0.1:wrong is unknown: ",
	} {
		e := EngineFlags{Peer: peer}
		if _, _, err := e.Open(t.Context(), serving(t, "none0", "none1")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("peer %q: %v, want %q", peer, err, want)
		}
	}
}
