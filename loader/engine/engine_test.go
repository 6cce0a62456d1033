// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// attached returns two hosts. The interface of the first is attached.
func attached(t *testing.T) (*topo.Topology, loader.Options) {
	t.Helper()
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	o := loader.Options{PinRoot: fmt.Sprintf("/sys/fs/bpf/srx-engine-test-%d-%s", os.Getpid(), t.Name()), RunDir: t.TempDir()}
	testkit.Must(t, top.Host(1).Do(func() error {
		att, err := loader.Attach(topo.IfName, o)
		if err != nil {
			return err
		}
		att.Close()
		return nil
	}))
	t.Cleanup(func() {
		if err := top.Host(1).Do(func() error { return loader.Detach(topo.IfName, o) }); err != nil {
			t.Error(err)
		}
	})
	return top, o
}

// The device of an attachment is opened on the interface that was attached, not on another one
// of the same name.
func TestOpenOnlyTheInterfaceThatWasAttached(t *testing.T) {
	top, o := attached(t)
	refused := func(host int, want string) {
		t.Helper()
		_ = top.Host(host).Do(func() error {
			d, err := Open(topo.IfName, o, nic.Options{})
			if err == nil {
				d.Close()
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("host %d: %v, want %q", host, err, want)
			}
			return nil
		})
	}
	refused(2, loader.ErrElsewhere.Error())
	testkit.Must(t, top.Host(1).Do(func() error {
		l, err := netlink.LinkByName(topo.IfName)
		if err != nil {
			return err
		}
		const name = "renamed0"
		return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, name), netlink.LinkSetUp(l),
			netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: topo.IfName}, PeerName: "other0"}))
	}))
	refused(1, "eth0 belong to renamed0")
}

// An application that does not want the device any more gets none, and the interface has no
// engine.
func TestOpenObeysContext(t *testing.T) {
	top, o := attached(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = top.Host(1).Do(func() error {
		if d, err := open(ctx, topo.IfName, Config{Loader: o}); d != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%v, %v", d, err)
		}
		d, err := open(context.Background(), topo.IfName, Config{Loader: o})
		if err != nil {
			t.Errorf("afterwards: %v", err)
			return nil
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		return nil
	})
}
