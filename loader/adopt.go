// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader/pacer"
)

// Open adopts what an earlier Attach has pinned.
func Open(ifname string, o Options) (_ *Attachment, err error) {
	o = o.withDefaults()
	dir := PinDir(o.PinRoot, ifname)
	a := &Attachment{Dir: dir, opts: o}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	a.ingress, err = link.LoadPinnedLink(filepath.Join(dir, pinIngressLink), nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", ifname, ErrNotAttached)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ifname, err)
	}
	for name, m := range a.pinnedMaps() {
		if *m, err = ebpf.LoadPinnedMap(filepath.Join(dir, name), nil); err != nil {
			return nil, fmt.Errorf("%s: pinned map %s: %w: run `softroce-xdp clean`", ifname, name, err)
		}
	}
	if a.exchange, err = ebpf.LoadPinnedProgram(filepath.Join(dir, pinExchange), nil); err != nil {
		return nil, fmt.Errorf("%s: pinned exchange program: %w: run `softroce-xdp clean`", ifname, err)
	}
	if a.engineSync, err = ebpf.LoadPinnedProgram(filepath.Join(dir, pinEngineSync), nil); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: pinned engine sync program: %w: run `softroce-xdp clean`", ifname, err)
	}
	a.egress, err = link.LoadPinnedLink(filepath.Join(dir, pinEgressLink), nil)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", ifname, err)
	}
	if a.State, err = ReadState(o.RunDir, ifname); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: attached, but its state file %s is gone: run `softroce-xdp detach %s` and attach again", ifname, statePath(o.RunDir, ifname), ifname)
	}
	return a, err
}

// Alive reports whether the interface that the pins belong to still exists.
func (a *Attachment) Alive() bool { return ifindexOf(a.ingress) != 0 }

// Config returns a copy of the config map's element.
func (a *Attachment) Config() (bpf.Config, error) {
	var c bpf.Config
	if err := a.Maps.Config.Lookup(uint32(0), &c); err != nil {
		return c, fmt.Errorf("read config: %w", err)
	}
	return c, nil
}

// SetAgent writes down who the agent is; 0 when it ends.
func (a *Attachment) SetAgent(pid int) error {
	a.State.AgentPID = pid
	return writeState(a.opts.RunDir, a.State)
}

// Upgrade replaces the programs of a live attachment with those of this binary,
// in one step each and without losing a packet; the maps and all they hold stay.
// The agent should be stopped before and started anew after it.
func Upgrade(ifname string, o Options) (*Attachment, error) {
	a, err := Open(ifname, o)
	if err != nil {
		return nil, err
	}
	cfg, err := a.Config()
	if err != nil {
		a.Close()
		return nil, err
	}
	if cfg.AbiVersion != bpf.ABIVersion {
		a.Close()
		return nil, fmt.Errorf("%s: the tables have layout %d, this binary has %d: detach and attach again", ifname, cfg.AbiVersion, bpf.ABIVersion)
	}
	if err := a.replacePrograms(); err != nil {
		a.Close()
		return nil, fmt.Errorf("%s: upgrade: %w", ifname, err)
	}
	a.State.Version = a.opts.Version
	return a, writeState(a.opts.RunDir, a.State)
}

func (a *Attachment) replacePrograms() error {
	reuse := map[string]*ebpf.Map{}
	for name, m := range a.pinnedMaps() {
		reuse[name] = *m
	}
	o := a.opts
	o.Clock = a.State.Clock
	objs, err := load(o, reuse)
	if err != nil {
		return err
	}
	defer objs.Close()
	if err := a.ingress.Update(objs.SoftroceIngress); err != nil {
		return fmt.Errorf("ingress: %w", err)
	}
	if a.egress != nil {
		if err := a.egress.Update(objs.SoftroceEgress); err != nil {
			return fmt.Errorf("egress: %w", err)
		}
	} else {
		i, err := FindIface(a.State.Interface)
		if err != nil {
			return err
		}
		if err := netlink.FilterReplace(clsactFilter(i, objs.SoftroceEgress)); err != nil {
			return fmt.Errorf("egress: %w", err)
		}
		if err := repin(objs.SoftroceEgress, filepath.Join(a.Dir, pinEgressProg)); err != nil {
			return err
		}
	}
	if err := repin(objs.SoftroceEngineSync, filepath.Join(a.Dir, pinEngineSync)); err != nil {
		return err
	}
	return repin(objs.SoftroceExchange, filepath.Join(a.Dir, pinExchange))
}

// repin puts another program in a pin's place without a moment in between.
func repin(p *ebpf.Program, path string) error {
	tmp := path + "_new"
	_ = os.Remove(tmp)
	p, err := p.Clone()
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Pin(tmp); err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	return os.Rename(tmp, path)
}

// Detach stops the agent and takes everything off the interface that attach put
// on it: programs, pins, root qdisc. It works on what a dead interface has left
// as well.
func Detach(ifname string, o Options) error {
	o = o.withDefaults()
	if err := checkPrivileges(); err != nil {
		return err
	}
	dir := PinDir(o.PinRoot, ifname)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %w", ifname, ErrNotAttached)
	}
	if who := engineHolder(o.RunDir, ifname); who != "" && linkAlive(dir) {
		return fmt.Errorf("%s: %w, in process %s: end that first, its queue pairs would hang", ifname, ErrEngineRunning, who)
	}
	if err := StopAgent(o.RunDir, ifname, 5*time.Second); err != nil {
		return err
	}
	state, _ := ReadState(o.RunDir, ifname)
	a := &Attachment{Dir: dir, opts: o, State: state}
	iface, ifErr := FindIface(ifname)
	same := ifErr == nil && (state.Netns == 0 || state.Netns == NetnsInode()) && (state.Ifindex == 0 || state.Ifindex == iface.Index)
	if state.Netns != 0 && state.Netns != NetnsInode() && linkAlive(dir) {
		return fmt.Errorf("%s: attached in another network namespace (inode %d): run detach there, for example with `nsenter --net=…`", ifname, state.Netns)
	}
	if same {
		a.detachEgress(iface)
		if err := a.restoreQdisc(iface); err != nil {
			return err
		}
	}
	detachIngress(dir)
	if err := removePins(dir); err != nil {
		return err
	}
	return removeState(o.RunDir, ifname)
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
func (a *Attachment) restoreQdisc(i Iface) error {
	if !a.State.OwnQdisc {
		return nil
	}
	if err := pacer.Restore(i.Link); err != nil {
		return err
	}
	if n := a.State.QueueLen; n != nil && *n == 0 {
		if err := netlink.LinkSetTxQLen(i.Link, 0); err != nil {
			return fmt.Errorf("%s: restore the queue length: %w", i.Name, err)
		}
	}
	return nil
}

func linkAlive(dir string) bool {
	l, err := link.LoadPinnedLink(filepath.Join(dir, pinIngressLink), nil)
	if err != nil {
		return false
	}
	defer l.Close()
	return ifindexOf(l) != 0
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
	for _, name := range names {
		dir := PinDir(o.PinRoot, name)
		if linkAlive(dir) {
			if left, err := cleanLive(name, o); err != nil {
				return cleaned, err
			} else if left {
				cleaned = append(cleaned, name)
			}
			continue
		}
		if err := StopAgent(o.RunDir, name, 5*time.Second); err != nil {
			return cleaned, err
		}
		if err := removePins(dir); err != nil {
			return cleaned, err
		}
		if err := removeState(o.RunDir, name); err != nil {
			return cleaned, err
		}
		cleaned = append(cleaned, name)
	}
	return cleaned, nil
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

// Forget removes the pins and the state of an interface that was deleted.
func Forget(a *Attachment) error {
	if err := removePins(a.Dir); err != nil {
		return err
	}
	return removeState(a.opts.RunDir, a.State.Interface)
}
