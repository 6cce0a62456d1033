// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/loader/pacer"
)

// Detach stops the agent and takes everything off the interface that attach put
// on it: programs, pins, root qdisc. It works on what a dead interface or an
// interrupted attach has left as well. Where it refuses, nothing has changed.
func Detach(ifname string, o Options) error {
	o = o.withDefaults()
	if err := checkPrivileges(); err != nil {
		return err
	}
	if !exists(PinDir(o.PinRoot, ifname)) {
		return notAttached(ifname, o.PinRoot)
	}
	release, err := o.control(ifname)
	if err != nil {
		return err
	}
	defer release()
	dir := PinDir(o.PinRoot, ifname)
	if !exists(dir) { // somebody was quicker
		return notAttached(ifname, o.PinRoot)
	}
	where, _ := locate(dir)
	if where == elsewhere {
		return elsewhereError(ifname, o)
	}
	// No engine starts while the interface is taken from under it.
	switch engine, err := takeEngineLease(o.RunDir, ifname); {
	case err == nil:
		defer engine.release()
	case errors.Is(err, ErrEngineRunning) && where == here:
		return fmt.Errorf("%w, its queue pairs would hang", err)
	case !errors.Is(err, ErrEngineRunning):
		return err
	}
	if err := StopAgent(o.RunDir, ifname, stopPatience); err != nil {
		return err
	}
	return takeOff(ifname, o)
}

// stopPatience is how long an agent may take to end.
const stopPatience = 5 * time.Second

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// takeOff removes all that attach makes, as far as it is there, and puts back what
// attach has changed on the interface. The caller has control, and has stopped the agent.
func takeOff(ifname string, o Options) error {
	dir := PinDir(o.PinRoot, ifname)
	a := &Attachment{Dir: dir, opts: o}
	var err error
	if a.State, err = ReadState(o.RunDir, ifname); err != nil {
		// Lost or damaged: whatever is ours by its handle is taken off.
		a.State = State{Egress: "clsact", OwnQdisc: true}
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

// device is the interface whose changes are to be taken back: the one that carries the
// program, else the one that an interrupted attach was at work on; nil if there is none.
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

// detachIngress takes the XDP program off at once. Without its pin it would go as
// well, but some time after: who attaches next would find the interface busy.
func detachIngress(dir string) {
	if l, err := link.LoadPinnedLink(filepath.Join(dir, pinIngressLink), nil); err == nil {
		_ = l.Detach() // of an interface that is gone there is nothing to detach
		l.Close()
	}
}

// restoreQdisc removes our root qdisc, and puts back the queue length, which the
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

// Clean removes the pins and state of interfaces that are gone, pin directories that
// an interrupted attach has left, and the entries of engines that were killed. It
// returns the names of the interfaces.
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
	return cleaned, errors.Join(errs...)
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
	if where, _ := locate(dir); where != gone {
		return cleanLive(name, o)
	}
	if err := StopAgent(o.RunDir, name, stopPatience); err != nil {
		return false, err
	}
	return true, takeOff(name, o)
}

// cleanLive cleans up after an engine on an interface that stays attached.
func cleanLive(name string, o Options) (bool, error) {
	a, err := Open(name, o)
	if err != nil {
		return false, err
	}
	defer a.Close()
	return CleanEngine(a)
}

// Forget removes the pins and the state of an interface that was deleted. It leaves
// them to the process that has control of the interface if ctx ends meanwhile.
func Forget(ctx context.Context, a *Attachment) error {
	for {
		l, err := takeLease(a.opts.RunDir, a.State.Interface, leaseControl)
		if err == nil {
			defer l.release()
			break
		}
		if !errors.Is(err, errLeased) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(leasePoll):
		}
	}
	if a.Alive() { // it lives on in another network namespace
		detachIngress(a.Dir)
	}
	if err := removePins(a.Dir); err != nil {
		return err
	}
	return removeState(a.opts.RunDir, a.State.Interface)
}
