// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

const cableName = "cable0"

// world is two hosts, joined twice: by a cable, which everything but loss is
// measured on, and through a switch that can drop (eth0).
type world struct {
	bin   string
	dir   string
	top   *topo.Topology
	ends  [2]topo.CableEnd
	addrs [2]netip.Addr // addresses on the cable
}

func newWorld(bin string) (_ *world, err error) {
	w := &world{bin: bin}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.dir, err = os.MkdirTemp("", "nicbench-"); err != nil {
		return nil, err
	}
	if err = os.Chmod(w.dir, 0o711); err != nil { // processes of other users reach the sockets in it
		return nil, err
	}
	if w.top, err = topo.New(topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true}); err != nil {
		return nil, err
	}
	if w.ends, err = topo.Cable(w.top.Host(1), w.top.Host(2), topo.CableSpec{Name: cableName, MTU: 9000}); err != nil {
		return nil, err
	}
	for i := range w.ends {
		w.addrs[i] = netip.AddrFrom4([4]byte{10, 54, 0, byte(i + 1)})
	}
	for i, e := range w.ends {
		if err := address(e, w.addrs[i], w.addrs[1-i], w.ends[1-i].MAC); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Host.Name(), err)
		}
	}
	return w, nil
}

// address gives a cable's end its address and the other's neighbour entry.
func address(e topo.CableEnd, own, peer netip.Addr, peerMAC net.HardwareAddr) error {
	nl := e.Host.Netlink()
	l, err := nl.LinkByIndex(e.Index)
	if err != nil {
		return err
	}
	ip := &net.IPNet{IP: own.AsSlice(), Mask: net.CIDRMask(24, 32)}
	if err := nl.AddrAdd(l, &netlink.Addr{IPNet: ip}); err != nil {
		return err
	}
	return nl.NeighSet(&netlink.Neigh{LinkIndex: e.Index, State: netlink.NUD_PERMANENT, IP: peer.AsSlice(), HardwareAddr: peerMAC})
}

func (w *world) close() error {
	var errs []error
	if w.top != nil {
		errs = append(errs, w.top.Close())
	}
	if w.dir != "" {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	return errors.Join(errs...)
}

// options are by which the product on a host is found: all call their interfaces
// the same.
func (w *world) options(h *topo.Host) loader.Options {
	return loader.Options{PinRoot: "/sys/fs/bpf/" + h.Namespace(), RunDir: filepath.Join(w.dir, h.Name())}
}

// attach puts the product on an interface of both hosts, by the real binary.
func (w *world) attach(ifName string, flags ...string) (detach func() error, err error) {
	var attached []*topo.Host
	do := func(h *topo.Host, args ...string) error {
		o := w.options(h)
		args = append(args, ifName, "--pin-root", o.PinRoot, "--run-dir", o.RunDir)
		if out, err := h.Command(w.bin, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: softroce-xdp %s: %w\n%s", h.Name(), args[0], err, out)
		}
		return nil
	}
	detach = func() error {
		var errs []error
		for _, h := range attached {
			errs = append(errs, do(h, "detach"), os.RemoveAll(w.options(h).PinRoot))
		}
		return errors.Join(errs...)
	}
	for _, h := range w.top.Hosts() {
		if err := do(h, append([]string{"attach", "--pacer", "none"}, flags...)...); err != nil {
			return nil, errors.Join(err, detach())
		}
		attached = append(attached, h)
	}
	return detach, nil
}

// devices opens the engines of both hosts on an interface with the product.
func (w *world) devices(ifName string, o nic.Options) (devs [2]*nic.Device, closeAll func() error, err error) {
	closeAll = func() error {
		var errs []error
		for _, d := range devs {
			if d != nil {
				errs = append(errs, d.Close())
			}
		}
		return errors.Join(errs...)
	}
	for i, h := range w.top.Hosts() {
		err := h.Do(func() (err error) {
			devs[i], err = engine.Open(ifName, w.options(h), o)
			return err
		})
		if err != nil {
			return devs, nil, errors.Join(err, closeAll())
		}
	}
	return devs, closeAll, nil
}

// withEngines attaches the product, opens engines on the cable, and takes all of it
// back after f.
func (w *world) withEngines(o nic.Options, f func([2]*nic.Device) error) (err error) {
	detach, err := w.attach(cableName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, detach()) }()
	devs, closeAll, err := w.devices(cableName, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	return f(devs)
}
