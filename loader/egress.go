// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Priority and name of the clsact filter, which is used without TCX. They distinguish it from
// filters of other programs.
const (
	clsactPriority = 0x5352
	clsactName     = "softroce_egress"
)

// attachEgress attaches the egress program by TCX (Linux 6.6), else by a clsact filter.
func (a *Attachment) attachEgress(i Iface, prog *ebpf.Program) error {
	switch a.opts.Egress {
	case EgressAuto, EgressTCX:
		// A program in front could end the chain (TCX_PASS), and this one would not run.
		l, err := attachTCX(link.TCXOptions{Interface: i.Index, Program: prog, Attach: ebpf.AttachTCXEgress, Anchor: link.Head()})
		if err == nil {
			a.State.Egress, a.egress = EgressTCX, l
			if err := l.Pin(filepath.Join(a.Dir, pinEgressLink)); err != nil {
				return fmt.Errorf("pin the egress link: %w", err)
			}
			return nil
		}
		if a.opts.Egress == EgressTCX || !(errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL)) {
			return fmt.Errorf("%s: attach egress by TCX (Linux 6.6 and later): %w: clsact serves as well, --egress auto or clsact", i.Name, err)
		}
		return a.attachClsact(i, prog)
	case EgressClsact:
		return a.attachClsact(i, prog)
	}
	return fmt.Errorf("no egress hook %q: choose auto, tcx or clsact", a.opts.Egress)
}

func attachTCX(o link.TCXOptions) (link.Link, error) {
	if err := DeniedFeature(FeatureTCX); err != nil {
		return nil, err
	}
	return link.AttachTCX(o)
}

func (a *Attachment) attachClsact(i Iface, prog *ebpf.Program) error {
	err := DeniedFeature(FeatureClsact)
	if err == nil {
		err = netlink.QdiscAdd(clsact(i.Link))
	}
	switch {
	case err == nil:
		a.State.OwnClsact = true
	case !errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%s: clsact qdisc (kernel module sch_ingress): %w", i.Name, err)
	}
	a.State.Egress = EgressClsact
	if err := netlink.FilterReplace(clsactFilter(i.Link, prog)); err != nil {
		return fmt.Errorf("%s: attach egress by clsact (kernel module cls_bpf): %w", i.Name, err)
	}
	return nil
}

func clsact(dev netlink.Link) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: dev.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

func clsactFilter(dev netlink.Link, prog *ebpf.Program) *netlink.BpfFilter {
	f := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: dev.Attrs().Index, Parent: netlink.HANDLE_MIN_EGRESS, Handle: 1,
			Protocol: unix.ETH_P_ALL, Priority: clsactPriority,
		},
		Name: clsactName, DirectAction: true,
	}
	if prog != nil {
		f.Fd = prog.FD()
	}
	return f
}

// detachEgress removes the egress program, and the clsact qdisc if attach has made it and it
// has no other filters.
func (a *Attachment) detachEgress(dev netlink.Link) {
	if a.egress != nil {
		a.egress.Close()
	}
	if a.State.Egress != EgressClsact {
		return
	}
	_ = netlink.FilterDel(clsactFilter(dev, nil))
	if !a.State.OwnClsact {
		return
	}
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		if filters, err := netlink.FilterList(dev, parent); err != nil || len(filters) > 0 {
			return
		}
	}
	_ = netlink.QdiscDel(clsact(dev))
}
