// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/loop"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// onAttached runs a test in the network namespace of a host whose interface is attached, and
// has no agent yet.
func onAttached(t *testing.T, o loader.Options, f func(t *testing.T, l netlink.Link, o loader.Options)) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(1)})
	o.PinRoot, o.RunDir = fmt.Sprintf("/sys/fs/bpf/srx-agent-test-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-")), t.TempDir()
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

// second is a second of the monotonic clock, in nanoseconds.
const second = uint64(time.Second)

func peerN(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

func keyN(n byte) bpf.DestKey { return bpf.KeyOf(peerN(n)) }

// bare returns an agent that has neither an interface nor a table.
func bare() *Agent {
	a := &Agent{cfg: &loader.LiveConfig{Config: &bpf.Config{}}, log: slog.New(slog.DiscardHandler)}
	a.loop = loop.New(loop.Options{Config: a.cfg.Config, Log: a.log})
	return a
}
