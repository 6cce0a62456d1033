// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/safchain/ethtool"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/inspect"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// withQueues runs a test on a host with an attached interface of so many queues.
func withQueues(t *testing.T, queues int, f func(ifname string, o loader.Options)) {
	const name = "cable0"
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	if _, err := topo.Cable(top.Host(1), top.Host(2), topo.CableSpec{Name: name, Queues: queues}); err != nil {
		t.Fatal(err)
	}
	// While one end has an XDP program, the other cannot have more transmit queues than it receives on.
	testkit.Must(t, top.Host(2).Do(func() error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		setQueues(t, tool, name, func(c *ethtool.Channels) { c.TxCount = 1 })
		return nil
	}))
	o := loader.Options{PinRoot: fmt.Sprintf("/sys/fs/bpf/srx-engine-test-%d-%s", os.Getpid(), t.Name()), RunDir: t.TempDir()}
	testkit.Must(t, top.Host(1).Do(func() error {
		att, err := loader.Attach(name, o)
		if err != nil {
			return err
		}
		att.Close()
		f(name, o)
		return loader.Detach(name, o)
	}))
}

func setQueues(t *testing.T, tool *ethtool.Ethtool, ifname string, change func(*ethtool.Channels)) {
	t.Helper()
	c := testkit.Must1(tool.GetChannels(ifname))(t)
	change(&c)
	if _, err := tool.SetChannels(ifname, c); err != nil {
		t.Fatal(err)
	}
}

// Queues that are added while an engine runs have no socket. That is found, until the device is
// opened again.
func TestQueuesAdded(t *testing.T) {
	withQueues(t, 4, func(ifname string, o loader.Options) {
		tool := testkit.Must1(ethtool.NewEthtool())(t)
		defer tool.Close()
		set := func(n uint32) { setQueues(t, tool, ifname, func(c *ethtool.Channels) { c.RxCount = n }) }
		found := func() bool {
			att := testkit.Must1(loader.Open(ifname, o))(t)
			defer att.Close()
			all := testkit.Must1(inspect.Inspect(att, ifname))(t)
			return slices.ContainsFunc(all, func(f inspect.Finding) bool {
				return f.Kind == inspect.Queues && strings.Contains(f.Text, "has 4 receive queues, the engine has sockets for 2")
			})
		}
		set(2)
		for _, opened := range []string{"first", "again"} {
			d := testkit.Must1(Open(ifname, o, nic.Options{}))(t)
			if found() {
				t.Errorf("%s: there is a socket for each queue", opened)
			}
			if opened == "first" {
				set(4)
				if !found() {
					t.Error("queues were added, and nothing is found")
				}
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if found() {
				t.Errorf("%s: without an engine", opened)
			}
		}
	})
}

// More queues than the map of sockets has room for are refused with a reason.
func TestTooManyQueues(t *testing.T) {
	withQueues(t, 257, func(ifname string, o loader.Options) {
		d, err := Open(ifname, o, nic.Options{})
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "cable0 has 257 receive queues, and an engine has sockets for 256 at most: `ethtool -L cable0`") {
			t.Error(err)
		}
	})
}
