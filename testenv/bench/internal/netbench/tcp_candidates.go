// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// empty puts a program on both hosts that passes everything, with frags like ours.
func empty(top *topo.Topology) (func() error, error) {
	const xdpPass = 2
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "empty", Type: ebpf.XDP, License: "GPL", Flags: unix.BPF_F_XDP_HAS_FRAGS,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
	})
	if err != nil {
		return nil, err
	}
	var links []link.Link
	remove := func() error {
		errs := []error{prog.Close()}
		for _, l := range links {
			errs = append(errs, l.Close())
		}
		return errors.Join(errs...)
	}
	for _, h := range top.Hosts() {
		dev, err := h.Netlink().LinkByName(topo.IfName)
		if err == nil {
			err = h.Do(func() error {
				l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: dev.Attrs().Index, Flags: link.XDPDriverMode})
				if err == nil {
					links = append(links, l)
				}
				return err
			})
		}
		if err != nil {
			return nil, errors.Join(err, remove())
		}
	}
	return remove, nil
}

// queued is empty with a root qdisc, which a veth has not and a NIC has: what is
// left of the difference to a pacer that is one.
func queued(top *topo.Topology) (func() error, error) {
	remove, err := empty(top)
	if err != nil {
		return nil, err
	}
	undo := func() error {
		errs := []error{remove()}
		for _, h := range top.Hosts() {
			errs = append(errs, qdisc(h, (*netlink.Handle).QdiscDel))
		}
		return errors.Join(errs...)
	}
	for _, h := range top.Hosts() {
		if err := qdisc(h, (*netlink.Handle).QdiscReplace); err != nil {
			return nil, errors.Join(err, undo())
		}
	}
	return undo, nil
}

func qdisc(h *topo.Host, do func(*netlink.Handle, netlink.Qdisc) error) error {
	dev, err := h.Netlink().LinkByName(topo.IfName)
	if err != nil {
		return err
	}
	return do(h.Netlink(), &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: dev.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		QdiscType:  "pfifo_fast",
	})
}

// tcpProduct attaches the product to both hosts. With nodes each knows the other
// from a node file, so that its pacer has a destination to pace.
func tcpProduct(bin, dir, pacer string, nodes bool) func(*topo.Topology) (func() error, error) {
	return func(top *topo.Topology) (func() error, error) {
		flags := []string{"--pacer", pacer}
		if nodes {
			file, err := nodeFile(dir, top)
			if err != nil {
				return nil, err
			}
			flags = append(flags, "--nodes", file)
		}
		_, detach, err := engines.Attach(top, bin, dir, flags...)
		if err != nil {
			return nil, errors.Join(err, detach())
		}
		return detach, nil
	}
}

func nodeFile(dir string, top *topo.Topology) (string, error) {
	text := "nodes:\n"
	for i, h := range top.Hosts() {
		text += fmt.Sprintf("  - {number: %d, addresses: [%s]}\n", i+1, h.IPv4())
	}
	file := filepath.Join(dir, "nodes.yaml")
	return file, os.WriteFile(file, []byte(text), 0o644)
}
