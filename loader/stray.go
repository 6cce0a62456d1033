// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/pacer"
)

// ErrStray: an interface has a data plane of softroce-xdp that has no pins here.
var ErrStray = errors.New("softroce-xdp is attached without its pins")

// Names of the programs. The kernel keeps 15 characters.
const (
	ingressProgram = "softroce_ingress"
	egressProgram  = "softroce_egress"
)

// parts are what an interface has of softroce-xdp, found by names, handles and IDs of the kernel,
// without pins and state file.
type parts struct {
	dev    netlink.Link
	xdp    ebpf.ProgramID // 0 = none
	tcx    link.ID        // 0 = none
	egress ebpf.ProgramID // program of the TCX link or the filter
	filter bool           // there is a filter of clsact
	qdisc  bool           // the root qdisc of the pacer
	agent  *agentProcess
}

// partsOf finds what an interface of this network namespace has of softroce-xdp.
func partsOf(dev netlink.Link) *parts {
	p := &parts{dev: dev, agent: agentAt(dev.Attrs().Index)}
	if x := dev.Attrs().Xdp; x != nil && x.Attached && isProgram(ebpf.ProgramID(x.ProgId), ingressProgram) {
		p.xdp = ebpf.ProgramID(x.ProgId)
	}
	if q, err := link.QueryPrograms(link.QueryOptions{Target: dev.Attrs().Index, Attach: ebpf.AttachTCXEgress}); err == nil {
		for _, prog := range q.Programs {
			if id, ok := prog.LinkID(); ok && isProgram(prog.ID, egressProgram) {
				p.tcx, p.egress = id, prog.ID
			}
		}
	}
	filters, _ := netlink.FilterList(dev, netlink.HANDLE_MIN_EGRESS)
	for _, f := range filters {
		if b, ok := f.(*netlink.BpfFilter); ok && b.Priority == clsactPriority && strings.HasPrefix(b.Name, clsactName) {
			p.filter, p.egress = true, ebpf.ProgramID(b.Id)
		}
	}
	p.qdisc = pacer.Installed(dev)
	return p
}

func (p *parts) any() bool {
	return p.xdp != 0 || p.tcx != 0 || p.filter || p.qdisc || p.agent != nil
}

// isProgram reports whether a program has a name of softroce-xdp.
func isProgram(id ebpf.ProgramID, name string) bool {
	prog, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return false
	}
	defer prog.Close()
	info, err := prog.Info()
	return err == nil && info.Name != "" && strings.HasPrefix(name, info.Name[:min(len(info.Name), 15)]) && len(info.Name) >= 15
}

// explain says what is on an interface that has no pins here, and what to do.
func (p *parts) explain(o Options) error {
	name, pins := p.dev.Attrs().Name, PinDir(o.PinRoot, p.dev.Attrs().Name)
	if err := cmp.Or(p.foreign(o), p.otherMounts()); err != nil {
		return err
	}
	switch {
	case p.agent != nil:
		return fmt.Errorf("%s: %w (the agent is %w; %s is gone): `softroce-xdp attach %s` makes them again, `softroce-xdp detach %[1]s` removes everything",
			name, ErrStray, p.agent, pins, name)
	case p.xdp != 0 || p.tcx != 0:
		return fmt.Errorf("%s: %w: it has no agent here and no pins at %s; another --pin-root, bpf file system or process keeps it: name that one, or remove it by `softroce-xdp detach %[1]s`",
			name, ErrStray, pins)
	}
	return fmt.Errorf("%s: %w: its filter or root qdisc is left: `softroce-xdp detach %[1]s` removes it", name, ErrStray)
}

// ErrOtherRunDir: the interface is attached with another run directory.
var ErrOtherRunDir = errors.New("softroce-xdp is attached, elsewhere")

// foreign returns an error if a live agent of another run directory has the interface.
func (p *parts) foreign(o Options) error {
	if p.agent == nil || p.agent.pid == 0 || len(p.agent.runDirs) == 0 || p.agent.uses(o.RunDir) {
		return nil
	}
	return fmt.Errorf("%s: %w (run directory %s, the agent is %w): use that --run-dir and its --pin-root",
		p.dev.Attrs().Name, ErrOtherRunDir, strings.Join(p.agent.runDirs, " or "), p.agent)
}

// otherMounts returns an error if the agent of the interface lives in another mount namespace, where
// its pins may be.
func (p *parts) otherMounts() error {
	if p.agent == nil || p.agent.pid == 0 || !p.agent.otherMounts() {
		return nil
	}
	return fmt.Errorf("%s: %w (the agent is %w, in another mount namespace): `nsenter --mount=/proc/%d/ns/mnt softroce-xdp …` goes there",
		p.dev.Attrs().Name, ErrOtherRunDir, p.agent, p.agent.pid)
}

// strayAt returns what the interface of that name has of softroce-xdp; nil = nothing, or there is
// no such interface.
func strayAt(ifname string) *parts {
	dev, err := netlink.LinkByName(ifname)
	if err != nil {
		return nil
	}
	if p := partsOf(dev); p.any() {
		return p
	}
	return nil
}

// Strays explains the interfaces of this network namespace that have something of softroce-xdp and
// no pins in the pin root. An error that wraps ErrOtherRunDir is no fault.
func Strays(o Options) (all []error) {
	o = o.withDefaults()
	links, err := netlink.LinkList()
	if err != nil || checkHidden(o.PinRoot) != nil {
		return nil
	}
	pinned := map[int]bool{}
	names, _ := Pinned(o.PinRoot)
	for _, name := range names {
		if where, dev := locate(PinDir(o.PinRoot, name)); where == here {
			pinned[dev.Attrs().Index] = true
		}
	}
	// Few interfaces have anything: the others are not searched, which takes long for thousands.
	marked, guarded := pacer.Marked(), guards()
	for _, dev := range links {
		x := dev.Attrs().Xdp
		may := marked[dev.Attrs().Index] || x != nil && x.Attached || guarded[guardName(dev.Attrs().Index)] != ""
		if !may || pinned[dev.Attrs().Index] || exists(PinDir(o.PinRoot, dev.Attrs().Name)) {
			continue
		}
		if p := partsOf(dev); p.any() {
			all = append(all, p.explain(o))
		}
	}
	return all
}

// detach removes everything from the interface. The agent has ended.
func (p *parts) detach() error {
	var errs []error
	if p.xdp != 0 {
		errs = append(errs, detachLinks(func(i *link.Info) bool {
			return i.XDP() != nil && i.Program == p.xdp && int(i.XDP().Ifindex) == p.dev.Attrs().Index
		}))
	}
	if p.tcx != 0 {
		if l, err := link.NewFromID(p.tcx); err == nil { // else it ended with the agent
			errs = append(errs, l.Detach())
			l.Close()
		}
	}
	if p.filter {
		a := Attachment{State: State{Egress: EgressClsact, OwnClsact: true}}
		a.detachEgress(p.dev)
	}
	errs = append(errs, pacer.Restore(p.dev))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: detach without pins: %w", p.dev.Attrs().Name, err)
	}
	return nil
}

// detachLinks detaches all links of the kernel that match.
func detachLinks(match func(*link.Info) bool) error {
	var errs []error
	err := eachLink(match, func(l link.Link) { errs = append(errs, l.Detach()) })
	return errors.Join(append(errs, err)...)
}

// eachLink calls f with every link of the kernel that matches. f must stand a second call with the same link: at a link that another
// process is just making, the kernel says EAGAIN and the list ends, so it is read again.
func eachLink(match func(*link.Info) bool, f func(link.Link)) (err error) {
	for range 1000 {
		var it link.Iterator
		for it.Next() {
			if info, err := it.Link.Info(); err == nil && match(info) {
				f(it.Link)
			}
		}
		if err = it.Err(); !errors.Is(err, unix.EAGAIN) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}
