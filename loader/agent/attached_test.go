// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// onAttached runs a test in the network namespace of a host whose interface is attached, and
// has no agent yet.
func onAttached(t *testing.T, o loader.Options, f func(t *testing.T, l netlink.Link, o loader.Options)) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(1)})
	o.PinRoot, o.RunDir = fmt.Sprintf("/sys/fs/bpf/srx-agent-test-%d-%s", os.Getpid(), t.Name()), t.TempDir()
	if err := top.Host(1).Do(func() error {
		att, err := loader.Attach(topo.IfName, o)
		if err != nil {
			return err
		}
		att.Close()
		l, err := netlink.LinkByName(topo.IfName)
		if err == nil {
			f(t, l, o)
		}
		if err := loader.Detach(topo.IfName, o); err != nil {
			t.Error(err)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// mustOpen opens the agent of the interface. It is closed when the test ends.
func mustOpen(t *testing.T, o loader.Options) *Agent {
	t.Helper()
	a, err := open(topo.IfName, o, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	return a
}
