// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// programs are the programs that run on the interface. They are pinned, because a link that
// somebody has detached does not give its program to processes without CAP_SYS_ADMIN.
type programs struct{ ingress, egress *ebpf.Program }

func (p programs) pins() map[string]*ebpf.Program {
	m := map[string]*ebpf.Program{}
	if p.ingress != nil {
		m[pinIngressProg] = p.ingress
	}
	if p.egress != nil {
		m[pinEgressProg] = p.egress
	}
	return m
}

func (p programs) close() {
	for _, prog := range p.pins() {
		prog.Close()
	}
}

// openPrograms opens the pins of the programs. An attachment of an earlier version has none
// until it is upgraded.
func (a *Attachment) openPrograms() error {
	for name, p := range map[string]**ebpf.Program{pinIngressProg: &a.programs.ingress, pinEgressProg: &a.programs.egress} {
		prog, err := ebpf.LoadPinnedProgram(filepath.Join(a.Dir, name), nil)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("pinned program %s: %w", name, err)
		}
		if err == nil {
			*p = prog
		}
	}
	return nil
}

// Hook is a place where a program of the attachment runs.
type Hook struct {
	// Ours: the program of the attachment is there.
	Ours bool
	// Others are programs of somebody else that run before that of the attachment or in
	// place of it, by name and ID.
	Others []string
}

// Device returns the interface of the attachment in this network namespace, under any name.
func (a *Attachment) Device() (netlink.Link, error) { return netlink.LinkByIndex(a.index()) }

// index returns the index of the interface. Each look at a link takes the lock of all network
// configuration, for which other processes may wait.
func (a *Attachment) index() int {
	if a.State.Ifindex != 0 {
		return a.State.Ifindex
	}
	return ifindexOf(a.ingress)
}

// detached reports whether the interface is here, but somebody has detached the XDP program.
func (a *Attachment) detached() bool {
	if ifindexOf(a.ingress) != 0 || a.State.Netns != NetnsInode() {
		return false
	}
	_, err := a.Device()
	return err == nil
}

// Here reports whether the interface of the attachment is in this network namespace, with its
// XDP program or without.
func (a *Attachment) Here() bool {
	where, _ := locate(a.Dir)
	return where == here || where == gone && a.detached()
}

// Ingress reads what XDP program runs. While the link of the attachment is attached, the kernel
// refuses others.
func (a *Attachment) Ingress() (Hook, error) {
	if ifindexOf(a.ingress) != 0 {
		return Hook{Ours: true}, nil
	}
	dev, err := a.Device()
	if err != nil {
		return Hook{}, err
	}
	var h Hook
	if x := dev.Attrs().Xdp; x != nil && x.Attached {
		h.Others = append(h.Others, programName(x.ProgId))
	}
	return h, nil
}

// Egress reads what egress programs run, up to that of the attachment.
func (a *Attachment) Egress() (Hook, error) {
	index := a.index()
	if a.State.Egress == EgressTCX {
		return a.tcxEgress(index)
	}
	dev := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
	// TCX programs run before all filters. Kernels before 6.6 have none.
	h, err := a.tcxEgress(index)
	if err != nil {
		h = Hook{}
	}
	h.Ours = false
	filters, err := netlink.FilterList(dev, netlink.HANDLE_MIN_EGRESS)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // there is no clsact qdisc
		return h, fmt.Errorf("list egress filters: %w", err)
	}
	for _, f := range filters {
		bpf, ok := f.(*netlink.BpfFilter)
		switch {
		case ok && f.Attrs().Priority == clsactPriority && bpf.Name == clsactName:
			h.Ours = true
			return h, nil
		case ok && f.Attrs().Handle != 0:
			h.Others = append(h.Others, fmt.Sprintf("filter %q (priority %d)", bpf.Name, f.Attrs().Priority))
		case !ok && f.Attrs().Priority < clsactPriority:
			h.Others = append(h.Others, fmt.Sprintf("filter %s (priority %d)", f.Type(), f.Attrs().Priority))
		}
	}
	return h, nil
}

func (a *Attachment) tcxEgress(index int) (Hook, error) {
	var h Hook
	res, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXEgress})
	if err != nil {
		return h, fmt.Errorf("list TCX programs: %w", err)
	}
	if a.egress != nil && a.egressID == 0 {
		if info, err := a.egress.Info(); err == nil {
			a.egressID = info.ID
		}
	}
	for _, p := range res.Programs {
		if id, ok := p.LinkID(); ok && id == a.egressID {
			h.Ours = true
			return h, nil
		}
		h.Others = append(h.Others, programName(uint32(p.ID)))
	}
	return h, nil
}
