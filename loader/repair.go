// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// replaceIngress puts the program on the interface: in place of the one before, or anew if
// somebody has detached that.
func (a *Attachment) replaceIngress(prog *ebpf.Program) error {
	if ifindexOf(a.ingress) != 0 {
		return a.ingress.Update(prog)
	}
	dev, err := a.Device()
	if err != nil {
		return err
	}
	if x := dev.Attrs().Xdp; x != nil && x.Attached {
		return fmt.Errorf("%s carries an XDP program of somebody else: %s. Detach that first (`bpftool net` shows it)", dev.Attrs().Name, programName(x.ProgId))
	}
	flags := link.XDPDriverMode
	if a.State.XDPMode == XDPGeneric {
		flags = link.XDPGenericMode
	}
	l, err := attachXDP(link.XDPOptions{Program: prog, Interface: dev.Attrs().Index, Flags: flags})
	if err != nil {
		return err
	}
	return replaceLink(&a.ingress, l, filepath.Join(a.Dir, pinIngressLink))
}

// replaceEgress puts the program on the interface, before all others: in place of the one before,
// or anew if somebody has detached that or runs one in front.
func (a *Attachment) replaceEgress(prog *ebpf.Program) error {
	dev, err := a.Device()
	if err != nil {
		return err
	}
	if a.State.Egress != EgressTCX {
		return a.replaceFilter(dev, prog)
	}
	h, err := a.tcxEgress(dev.Attrs().Index)
	if err != nil {
		return err
	}
	if h.Ours && len(h.Others) == 0 {
		return a.egress.Update(prog)
	}
	// The old program ends first: two would stamp twice. Meanwhile packets leave without stamps.
	if a.egress != nil {
		_ = a.egress.Detach() // it may be detached
	}
	l, err := attachTCX(link.TCXOptions{Interface: dev.Attrs().Index, Program: prog, Attach: ebpf.AttachTCXEgress, Anchor: link.Head()})
	if err != nil {
		return err
	}
	a.egressID = 0
	return replaceLink(&a.egress, l, filepath.Join(a.Dir, pinEgressLink))
}

// replaceFilter creates the clsact qdisc if it is missing, and the filter.
func (a *Attachment) replaceFilter(dev netlink.Link, prog *ebpf.Program) error {
	switch err := netlink.QdiscAdd(clsact(dev)); {
	case err == nil:
		a.State.OwnClsact = true
	case !errors.Is(err, unix.EEXIST):
		return fmt.Errorf("clsact qdisc: %w", err)
	}
	return netlink.FilterReplace(clsactFilter(dev, prog))
}

// replaceLink takes a new link, and replaces the pin of the old one.
func replaceLink(old *link.Link, l link.Link, path string) error {
	tmp := path + "_new"
	_ = os.Remove(tmp)
	err := l.Pin(tmp)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		l.Close()
		return fmt.Errorf("pin: %w", err)
	}
	if *old != nil {
		(*old).Close()
	}
	*old = l
	return nil
}

// errNoPrograms: the programs of an earlier version are not pinned.
var errNoPrograms = errors.New("the attachment is of an earlier version: run `softroce-xdp attach --upgrade`")

// RepairIngress attaches the XDP program again that somebody has detached.
func (a *Attachment) RepairIngress() error {
	if a.programs.ingress == nil {
		return errNoPrograms
	}
	return a.replaceIngress(a.programs.ingress)
}

// RepairEgress attaches the egress program again that somebody has detached.
func (a *Attachment) RepairEgress() error {
	if a.programs.egress == nil {
		return errNoPrograms
	}
	own := a.State.OwnClsact
	if err := a.replaceEgress(a.programs.egress); err != nil || own == a.State.OwnClsact {
		return err
	}
	return a.RepairState()
}

// pinned returns all that is pinned, by the names of the pins.
func (a *Attachment) pinned() map[string]interface{ Pin(string) error } {
	all := map[string]interface{ Pin(string) error }{
		pinAgentCall: a.agentCall, pinEngineSync: a.engineSync, pinIngressLink: a.ingress,
	}
	for name, m := range a.pinnedMaps() {
		if *m != nil {
			all[name] = *m
		}
	}
	for name, p := range a.programs.pins() {
		all[name] = p
	}
	if a.egress != nil {
		all[pinEgressLink] = a.egress
	}
	return all
}

// LostPins returns the names of the pins that were removed, sorted.
func (a *Attachment) LostPins() ([]string, error) {
	var now unix.Stat_t
	if unix.Stat(a.Dir, &now) == nil && now == a.pinsSeen {
		return nil, nil // nothing was created or removed since the last call
	}
	there := map[string]bool{}
	entries, err := os.ReadDir(a.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list pins: %w", err)
	}
	for _, e := range entries {
		there[e.Name()] = true
	}
	var lost []string
	for name := range a.pinned() {
		if !there[name] {
			lost = append(lost, name)
		}
	}
	if !there[pinRunDir] {
		lost = append(lost, pinRunDir)
	}
	if slices.Sort(lost); len(lost) == 0 {
		a.pinsSeen = now
	}
	return lost, nil
}

// RepairPins pins what LostPins names.
func (a *Attachment) RepairPins() error {
	if err := ensureBPFFS(a.opts.PinRoot); err != nil {
		return err
	}
	if err := os.MkdirAll(a.Dir, 0o700); err != nil {
		return fmt.Errorf("pin directory: %w", err)
	}
	lost, err := a.LostPins()
	if err != nil {
		return err
	}
	all := a.pinned()
	for _, name := range lost {
		if name == pinRunDir {
			if err := linkRunDir(a.Dir, a.opts.RunDir); err != nil {
				return err
			}
			continue
		}
		if err := pinLost(all[name], filepath.Join(a.Dir, name)); err != nil {
			return fmt.Errorf("pin %s: %w", name, err)
		}
	}
	return nil
}

// pinLost pins an object whose pin was removed. The object remembers that pin, and would move it:
// a copy of the descriptor does not.
func pinLost(x interface{ Pin(string) error }, path string) error {
	switch x := x.(type) {
	case *ebpf.Map:
		c, err := x.Clone()
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Pin(path)
	case *ebpf.Program:
		c, err := x.Clone()
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Pin(path)
	case link.Link:
		_ = x.Unpin() // the file is gone
		return x.Pin(path)
	}
	return x.Pin(path)
}

// ErrStateLost: the state file is gone, damaged, or that of another attachment.
var ErrStateLost = errors.New("the state file is lost")

// CheckState compares the state file with the state of the attachment, if the file was replaced
// since the last call. The error wraps ErrStateLost if the file has to be written again.
func (a *Attachment) CheckState() error {
	path := statePath(a.opts.RunDir, a.State.Interface)
	now, err := os.Stat(path)
	if err == nil {
		if was := a.stateSeen; was != nil && os.SameFile(was, now) && was.ModTime().Equal(now.ModTime()) && was.Size() == now.Size() {
			return nil
		}
		var s State
		s, err = ReadState(a.opts.RunDir, a.State.Interface)
		if err == nil && (s.Interface != a.State.Interface || s.Ifindex != a.State.Ifindex || s.Netns != a.State.Netns) {
			err = fmt.Errorf("%s is of another attachment", path)
		}
	}
	var failed *os.PathError
	switch {
	case err == nil:
		a.stateSeen = now
		return nil
	case errors.As(err, &failed) && !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("read the state file: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrStateLost, err)
}

// RepairState writes the state file again.
func (a *Attachment) RepairState() error { return writeState(a.opts.RunDir, a.State) }

// WriteReport replaces the report of the agent.
func (a *Attachment) WriteReport(b []byte) error {
	return replaceFile(ReportPath(a.opts.RunDir, a.State.Interface), append(b, '\n'))
}

// TouchReport records that the report of the agent is that of now. It returns an error if somebody
// has removed the report.
func (a *Attachment) TouchReport() error {
	now := time.Now()
	return os.Chtimes(ReportPath(a.opts.RunDir, a.State.Interface), now, now)
}
