// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader/pacer"
)

// Open opens the pins of an earlier Attach with the same layout of the tables.
func Open(ifname string, o Options) (_ *Attachment, err error) {
	o = o.withDefaults()
	if err := checkRunDir(ifname, o); err != nil {
		return nil, err
	}
	dir := PinDir(o.PinRoot, ifname)
	a := &Attachment{Dir: dir, opts: o}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	a.ingress, err = link.LoadPinnedLink(filepath.Join(dir, pinIngressLink), nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil, noProgram(ifname, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ifname, err)
	}
	if err = checkLayout(ifname, dir); err != nil {
		return nil, err
	}
	for name, m := range a.pinnedMaps() {
		*m, err = ebpf.LoadPinnedMap(filepath.Join(dir, name), nil)
		if errors.Is(err, os.ErrNotExist) && addedMaps[name] {
			err = nil
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: pinned map %s: %w: run `softroce-xdp clean`", ifname, name, err)
		}
	}
	if a.agentCall, err = ebpf.LoadPinnedProgram(filepath.Join(dir, pinAgentCall), nil); err != nil {
		return nil, fmt.Errorf("%s: pinned agent call program: %w: run `softroce-xdp clean`", ifname, err)
	}
	if a.engineSync, err = ebpf.LoadPinnedProgram(filepath.Join(dir, pinEngineSync), nil); err != nil {
		return nil, fmt.Errorf("%s: pinned engine sync program: %w: run `softroce-xdp clean`", ifname, err)
	}
	if err = a.openPrograms(); err != nil {
		return nil, fmt.Errorf("%s: %w", ifname, err)
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

// OpenHere opens an attachment whose interface is in this network namespace and still has
// the name of the attach.
func OpenHere(ifname string, o Options) (*Attachment, error) {
	if err := CheckHere(ifname, o); err != nil {
		return nil, err
	}
	a, err := Open(ifname, o)
	if err != nil {
		return nil, err
	}
	if err := a.usable(ifname); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

func (a *Attachment) usable(ifname string) error {
	where, dev := locate(a.Dir)
	if where == gone && a.detached() {
		dev, _ = a.Device()
	}
	if dev == nil {
		return fmt.Errorf("%s: the interface that was attached is gone: run `softroce-xdp clean`", ifname)
	}
	return checkRenamed(ifname, a.Dir, dev)
}

// checkLayout refuses tables of another ABI version, whose maps and registers may have
// other names, sizes and places.
func checkLayout(ifname, dir string) error {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, bpf.SoftroceMapConfig), nil)
	if err != nil {
		return fmt.Errorf("%s: pinned map %s: %w: run `softroce-xdp clean`", ifname, bpf.SoftroceMapConfig, err)
	}
	defer m.Close()
	cfg, err := m.LookupBytes(uint32(0))
	if err != nil {
		return fmt.Errorf("%s: read config: %w", ifname, err)
	}
	// abi_version is the first field in every version.
	if v := binary.NativeEndian.Uint32(cfg); v != bpf.ABIVersion {
		return fmt.Errorf("%s: the tables have layout %d, this binary has %d: detach and attach again", ifname, v, bpf.ABIVersion)
	}
	return nil
}

// noProgram returns why a pin directory has no link of ingress, which attach pins last.
func noProgram(ifname string, o Options) error {
	if !exists(PinDir(o.PinRoot, ifname)) {
		return notAttached(ifname, o)
	}
	if who := leaseHolder(o.RunDir, ifname, leaseControl); who != "" {
		return fmt.Errorf("%s: %w yet: process %s is changing it; try again when it has ended", ifname, ErrNotAttached, who)
	}
	return fmt.Errorf("%s: %w: an attach or detach was interrupted; `softroce-xdp attach %s` begins anew, `softroce-xdp clean` removes what is left",
		ifname, ErrNotAttached, ifname)
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

// SetAgent stores the process of the agent, which has started now, in the state file.
func (a *Attachment) SetAgent(pid int) error {
	a.State.AgentPID, a.State.AgentStart, a.State.Foreground = pid, Monotonic(), a.opts.Foreground
	return writeState(a.opts.RunDir, a.State)
}

// SetSettings stores the settings that can change while attached in the state file.
func (a *Attachment) SetSettings(nodeFile, rateFrom string, nic *NIC) error {
	a.State.NodeFile, a.State.RateFrom, a.State.NIC = nodeFile, rateFrom, nic
	return writeState(a.opts.RunDir, a.State)
}

// Upgrade replaces the programs of an attachment by those of this binary, each atomically
// and without losing a packet. It attaches those again that somebody has detached, puts the TCX
// program before all others, and replaces another root qdisc by the pacer's. The maps and their
// contents stay. The caller stops the agent
// before and starts one afterwards.
func Upgrade(ifname string, o Options) (*Attachment, error) {
	release, err := o.control(ifname)
	if err != nil {
		return nil, err
	}
	defer release()
	a, err := OpenHere(ifname, o)
	if err != nil {
		return nil, err
	}
	if err := a.upgrade(); err != nil {
		a.Close()
		return nil, fmt.Errorf("%s: upgrade: %w", ifname, err)
	}
	a.State.Version = a.opts.Version
	return a, writeState(a.opts.RunDir, a.State)
}

// upgrade replaces the programs, and what somebody else has put in the place of the root qdisc.
func (a *Attachment) upgrade() error {
	if err := a.replacePrograms(); err != nil {
		return err
	}
	dev, err := a.Device()
	if err == nil {
		_, err = pacer.TakeBack(dev, a.State.Pacer, a.State.OwnQdisc)
	}
	return err
}

// openMaps returns the maps that are open, by the names of their pins, and the names of the others.
func (a *Attachment) openMaps() (open map[string]*ebpf.Map, missing []string) {
	open = map[string]*ebpf.Map{}
	for name, m := range a.pinnedMaps() {
		if *m == nil {
			missing = append(missing, name)
			continue
		}
		open[name] = *m
	}
	return open, missing
}

func (a *Attachment) replacePrograms() error {
	reuse, missing := a.openMaps()
	o := a.opts
	o.Clock = a.State.Clock
	objs, err := load(o, reuse)
	if err != nil {
		return err
	}
	defer objs.Close()
	if err := a.addMaps(objs, missing); err != nil {
		return err
	}
	if err := a.replaceIngress(objs.SoftroceIngress); err != nil {
		return fmt.Errorf("ingress: %w", err)
	}
	if err := a.replaceEgress(objs.SoftroceEgress); err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	for name, p := range (programs{objs.SoftroceIngress, objs.SoftroceEgress}).pins() {
		if err := repin(p, filepath.Join(a.Dir, name)); err != nil {
			return err
		}
	}
	if err := repin(objs.SoftroceEngineSync, filepath.Join(a.Dir, pinEngineSync)); err != nil {
		return err
	}
	return repin(objs.SoftroceAgentCall, filepath.Join(a.Dir, pinAgentCall))
}

// addMaps pins maps that the attachment did not have.
func (a *Attachment) addMaps(objs *bpf.Objects, names []string) error {
	added := Attachment{Maps: objs.SoftroceMaps}
	for _, name := range names {
		m, err := (*added.pinnedMaps()[name]).Clone()
		if err != nil {
			return fmt.Errorf("add map %s: %w", name, err)
		}
		*a.pinnedMaps()[name] = m
		if err := m.Pin(filepath.Join(a.Dir, name)); err != nil {
			return fmt.Errorf("pin %s: %w", name, err)
		}
	}
	return nil
}

// repin replaces the program of a pin atomically.
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
