// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// columnNames are the kinds of devices, in the order of the page.
var columnNames = []string{"engine", "device", "arena", "loopback", "card"}

// makers make the devices of a column, until the test ends.
var makers = map[string]func(t *testing.T) *column{
	"engine":   engineColumn,
	"device":   func(t *testing.T) *column { return servedColumn(t, false) },
	"arena":    func(t *testing.T) *column { return servedColumn(t, true) },
	"loopback": loopbackColumn,
	"card":     cardColumn,
}

// attach makes two hosts with the product attached.
func attach(t *testing.T, flags ...string) []*engines.Host {
	t.Helper()
	require.Root(t)
	spec := topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true}
	return engines.New(t, spec, append([]string{"--rate", "10G", "--pacer", "none"}, flags...)...)
}

// ownMemory registers memory of this process, or of the card.
func ownMemory(pd verbs.PD, _, bytes int, access verbs.Access) (verbs.DM, error) {
	return verbs.NewMemory(pd, bytes, access)
}

func engineColumn(t *testing.T) *column {
	hosts := attach(t)
	c := &column{register: ownMemory}
	for i, h := range hosts {
		c.dev[i], c.addr[i] = h.MustOpen(t, nic.Options{}), h.IPv4()
	}
	return c
}

// servedColumn has the devices that agents serve. arena: memory is of the arena.
func servedColumn(t *testing.T, arena bool) *column {
	hosts := attach(t, "--nic", "--nic-mode", "0666")
	c := &column{register: ownMemory}
	var dev [2]*client.Device
	for i, h := range hosts {
		err := h.Do(func() (err error) {
			dev[i], err = client.Open(t.Context(), topo.IfName, client.Config{RunDir: h.LoaderOptions().RunDir, ArenaBytes: 16 << 20})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev[i].Close() })
		c.dev[i], c.addr[i] = dev[i], h.IPv4()
	}
	if arena {
		c.register = func(pd verbs.PD, side, bytes int, access verbs.Access) (verbs.DM, error) {
			b, err := dev[side].Alloc(bytes)
			if err != nil {
				return nil, err
			}
			m, err := pd.RegMR(b, access)
			if err != nil {
				return nil, err
			}
			return struct {
				verbs.MR
				verbs.Bytes
			}{m, b}, nil
		}
	}
	return c
}

func loopbackColumn(t *testing.T) *column {
	d := devices.Loopback(t)
	here := netip.MustParseAddr("127.0.0.1")
	return &column{dev: [2]verbs.Device{d, d}, addr: [2]netip.Addr{here, here}, register: ownMemory}
}

// cardColumn has two models of the card, joined by a network on virtual time.
func cardColumn(t *testing.T) *column {
	c := &column{register: ownMemory}
	mac := func(i int) [6]byte { return [6]byte{2, 5: byte(i + 1)} }
	net := card.NewVirtual(7)
	var models [2]*card.Model
	for i := range models {
		models[i] = card.New()
		models[i].Put(regs.PortsBase+regs.PortsStatusOffset, uint32(regs.PortsStatus(0).WithLink(true)))
		c.addr[i] = netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
		opened, err := hwoffload.Open(models[i])
		if err != nil {
			t.Fatal(err)
		}
		d, err := driver.Open(opened, driver.Config{Addrs: []netip.Addr{c.addr[i]}, Resolve: func(dst netip.Addr) (driver.Hop, error) {
			if dst != c.addr[1-i] {
				return driver.Hop{}, errors.New("nobody has this address")
			}
			return driver.Hop{MAC: mac(1 - i)}, nil
		}})
		if err == nil {
			err = d.SetPort(0, mac(i))
		}
		if err != nil {
			t.Fatal(err)
		}
		c.dev[i] = d
	}
	net.Connect(models[0], 0, models[1], 0)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { net.Serve(ctx); close(ended) }()
	t.Cleanup(func() {
		for _, d := range c.dev {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
		cancel()
		<-ended
	})
	return c
}
