// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/loader/pacer"
)

// Detach stops the agent and reverts all changes of attach: programs, pins, root qdisc. It
// also removes the remains of an interface that was deleted and of an interrupted attach. It
// refuses before it changes anything.
func Detach(ifname string, o Options) error {
	o = o.withDefaults()
	if err := checkPrivileges(); err != nil {
		return err
	}
	if err := checkAttached(ifname, o); err != nil {
		return err
	}
	release, err := o.control(ifname)
	if err != nil {
		return err
	}
	defer release()
	if err := checkAttached(ifname, o); err != nil { // another process may have detached it meanwhile
		return err
	}
	where, stray := place(gone), strayAt(ifname)
	switch dir := PinDir(o.PinRoot, ifname); {
	case exists(dir):
		if where, _ = locate(dir); where == elsewhere {
			return elsewhereError(ifname, o)
		}
		if where == here || stray != nil && stray.foreign(o) != nil {
			stray = nil // the interface has another name now, or that of the pins is gone
		}
	case stray != nil:
		if err := stray.foreign(o); err != nil {
			return err
		}
	}
	if err := checkRunDir(ifname, o); err != nil {
		return err
	}
	// The lease keeps an engine from starting during the detach.
	switch engine, err := endEngine(o.RunDir, ifname); {
	case err == nil:
		defer engine.release()
	case errors.Is(err, ErrEngineRunning) && (where == here || stray != nil && stray.xdp != 0):
		return fmt.Errorf("%w, its queue pairs would hang", err)
	case !errors.Is(err, ErrEngineRunning):
		return err
	}
	if err := EndAgent(ifname, o); err != nil {
		return err
	}
	err = takeOff(ifname, o)
	if stray != nil {
		err = errors.Join(err, stray.detach())
	}
	return err
}

// endEngine ends the engine that the agent serves, with the agent, and takes the lease of the engine. A process that has an
// engine of its own is not ended: the error wraps ErrEngineRunning.
func endEngine(runDir, ifname string) (*lease, error) {
	for {
		if servesEngine(runDir, ifname) {
			if err := StopAgent(runDir, ifname, stopPatience); err != nil {
				return nil, err
			}
		}
		l, err := takeEngineLease(runDir, ifname)
		if !errors.Is(err, ErrEngineRunning) || !servesEngine(runDir, ifname) { // the agent may open its engine meanwhile
			return l, err
		}
	}
}

// servesEngine reports whether the process of the agent has the engine.
func servesEngine(runDir, ifname string) bool {
	pid := leasePID(runDir, ifname, leaseEngine)
	return pid != 0 && pid == leasePID(runDir, ifname, leaseAgent)
}

// checkAttached returns an error unless there is something to detach: pins, a state file, or
// something of softroce-xdp on the interface.
func checkAttached(ifname string, o Options) error {
	if exists(PinDir(o.PinRoot, ifname)) {
		return nil
	}
	if err := checkHidden(o.PinRoot); err != nil {
		return err
	}
	s, err := ReadState(o.RunDir, ifname)
	if err == nil && s.Netns != NetnsInode() && AgentAlive(o.RunDir, ifname) {
		return elsewhereError(ifname, o)
	}
	if !errors.Is(err, os.ErrNotExist) && checkPinRoot(ifname, o) == nil || strayAt(ifname) != nil {
		return nil
	}
	return notAttached(ifname, o)
}

// EndAgent stops the agent of an interface, also one whose lease was removed, and waits for its
// end. The data plane stays. Without an agent it does nothing.
func EndAgent(ifname string, o Options) error {
	o = o.withDefaults()
	if err := StopAgent(o.RunDir, ifname, stopPatience); err != nil {
		return err
	}
	agent := guardOf(ifname, o)
	if agent == nil {
		return nil
	}
	return agent.stop(ifname, stopPatience)
}

// stopPatience is the time in which an agent has to end after each signal.
const stopPatience = 5 * time.Second

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// takeOff removes what attach makes, as far as it exists, and reverts its changes of the
// interface. The caller has control, and has stopped the agent.
func takeOff(ifname string, o Options) error {
	dir := PinDir(o.PinRoot, ifname)
	a := &Attachment{Dir: dir, opts: o}
	var err error
	if a.State, err = ReadState(o.RunDir, ifname); err != nil {
		// Lost or damaged: filter and qdisc are recognised by their handles.
		a.State = State{Egress: EgressClsact, OwnQdisc: true}
	}
	if dev := a.device(ifname); dev != nil {
		a.detachEgress(dev)
		if err := a.restoreQdisc(dev); err != nil {
			return err
		}
	}
	detachIngress(dir)
	if err := removePins(dir); err != nil {
		return err
	}
	return removeState(o.RunDir, ifname)
}

// device returns the interface whose changes have to be reverted: the one with the program,
// else the one of an interrupted attach; nil if there is none.
func (a *Attachment) device(ifname string) netlink.Link {
	where, dev := locate(a.Dir)
	if where != gone {
		return dev
	}
	if a.State.Ifindex == 0 || a.State.Netns != NetnsInode() {
		return nil
	}
	dev, err := netlink.LinkByIndex(a.State.Ifindex)
	if err != nil || dev.Attrs().Name != ifname {
		return nil
	}
	return dev
}

// detachIngress detaches the XDP program at once. Removing its pin detaches it too, but some
// time later: the next attach would find the interface busy.
func detachIngress(dir string) {
	if l, err := link.LoadPinnedLink(filepath.Join(dir, pinIngressLink), nil); err == nil {
		_ = l.Detach() // of an interface that is gone there is nothing to detach
		l.Close()
	}
}

// restoreQdisc removes the root qdisc of the pacer, and restores the queue length, which the
// kernel raises from 0 when an interface gets its first qdisc.
func (a *Attachment) restoreQdisc(dev netlink.Link) error {
	if !a.State.OwnQdisc {
		return nil
	}
	if err := pacer.Restore(dev); err != nil {
		return err
	}
	if n := a.State.QueueLen; n != nil && *n == 0 {
		if err := netlink.LinkSetTxQLen(dev, 0); err != nil {
			return fmt.Errorf("%s: restore the queue length: %w", dev.Attrs().Name, err)
		}
	}
	return nil
}

// Clean removes the pins and state files of interfaces that were deleted, the pin directories
// of interrupted attaches, and the entries of killed engines. It returns the names of the
// interfaces for which it has removed something.
func Clean(o Options) ([]string, error) {
	o = o.withDefaults()
	names, err := Pinned(o.PinRoot)
	if err != nil {
		return nil, err
	}
	var cleaned []string
	var errs []error
	for _, name := range names {
		left, err := cleanOne(name, o)
		if err != nil {
			errs = append(errs, err)
		} else if left {
			cleaned = append(cleaned, name)
		}
	}
	for _, name := range lostStates(o) {
		left, err := cleanLost(name, o)
		if err != nil {
			errs = append(errs, err)
		} else if left {
			cleaned = append(cleaned, name)
		}
	}
	return cleaned, errors.Join(errs...)
}

// cleanLost removes a state of lostStates, unless the interface was attached meanwhile.
func cleanLost(name string, o Options) (bool, error) {
	release, err := o.control(name)
	if err != nil {
		return false, err
	}
	defer release()
	if !isLost(name, o) {
		return false, nil
	}
	return true, removeState(o.RunDir, name)
}

// lostStates lists the interfaces of which only a state file is left, which says why.
func lostStates(o Options) (names []string) {
	files, _ := filepath.Glob(filepath.Join(o.RunDir, "*.json"))
	for _, f := range files {
		name := unescapeName(strings.TrimSuffix(filepath.Base(f), ".json"))
		if isLost(name, o) {
			names = append(names, name)
		}
	}
	return names
}

// isLost reports whether of an interface only a state file is left, which says why.
func isLost(name string, o Options) bool {
	s, err := ReadState(o.RunDir, name)
	return err == nil && s.Lost != "" && !exists(PinDir(o.PinRoot, name))
}

func cleanOne(name string, o Options) (bool, error) {
	release, err := o.control(name)
	if err != nil {
		return false, err
	}
	defer release()
	dir := PinDir(o.PinRoot, name)
	if !exists(dir) {
		return false, nil
	}
	if err := checkRunDir(name, o); err != nil {
		return false, err
	}
	if where, _ := locate(dir); where != gone {
		return cleanLive(name, o)
	}
	if err := StopAgent(o.RunDir, name, stopPatience); err != nil {
		return false, err
	}
	return true, takeOff(name, o)
}

// cleanLive removes the entries of a killed engine on an interface that stays attached.
func cleanLive(name string, o Options) (bool, error) {
	a, err := Open(name, o)
	if err != nil {
		return false, err
	}
	defer a.Close()
	return CleanEngine(a)
}

// Forget removes the pins and the state file of an interface that is lost (ErrLost), and what
// attach has changed on it as far as it still exists. Of an interface that was moved to another
// network namespace a state file stays that says so. If ctx ends before it gets control of the
// interface, it leaves that to the process that has control.
func Forget(ctx context.Context, a *Attachment) error {
	l, err := waitLease(ctx, a.opts.RunDir, a.State.Interface)
	if errors.Is(err, errLeased) {
		return nil
	}
	if err != nil {
		return err
	}
	defer l.release()
	where, dev := locateLink(a.ingress)
	lost := a.Lost()
	var errs []error
	if where == here {
		a.detachEgress(dev)
		errs = append(errs, a.restoreQdisc(dev))
	}
	// In another network namespace, the kernel has removed qdiscs and filters with the move.
	for _, l := range []link.Link{a.ingress, a.egress} {
		if l != nil {
			_ = l.Detach() // of an interface that was deleted there is nothing to detach
		}
	}
	errs = append(errs, removePins(a.Dir), removeState(a.opts.RunDir, a.State.Interface))
	if where == elsewhere {
		errs = append(errs, writeState(a.opts.RunDir, State{
			Interface: a.State.Interface, Netns: a.State.Netns, PinRoot: a.State.PinRoot, Version: a.State.Version,
			Attached: a.State.Attached, Lost: lost.Error(),
		}))
	}
	return errors.Join(errs...)
}
