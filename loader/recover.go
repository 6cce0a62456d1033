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

// Recover pins the data plane of an interface again if pins or the state file were removed while
// its agent lives. It returns whether something was missing. An interface that is not attached, or
// whose attachment is complete, is left alone. If the data plane belongs to another run directory,
// pin root or mount namespace, the error wraps ErrOtherRunDir or ErrStray.
func Recover(ifname string, o Options) (bool, error) {
	o = o.withDefaults()
	release, err := o.control(ifname)
	if err != nil {
		return false, err
	}
	defer release()
	dir := PinDir(o.PinRoot, ifname)
	where, dev := locate(dir)
	if where == elsewhere || checkRunDir(ifname, o) != nil {
		return false, nil // the caller's next step says so
	}
	if where == gone {
		if dev, err = netlink.LinkByName(ifname); err != nil {
			return false, nil
		}
	}
	if where == here && dev.Attrs().Name != ifname || checkHidden(o.PinRoot) != nil {
		return false, nil
	}
	_, err = ReadState(o.RunDir, ifname)
	lostState := errors.Is(err, os.ErrNotExist)
	if where == here && !lostState && len(missingPins(dir)) == 0 {
		return false, nil
	}
	p := partsOf(dev)
	if p.xdp == 0 {
		return false, nil // nothing works: attach begins anew, and removes what is left
	}
	if err := p.foreign(o); err != nil {
		return false, err
	}
	if p.agent == nil && !AgentAlive(o.RunDir, ifname) && where != here {
		return false, p.explain(o) // somebody else keeps it
	}
	if err := p.otherMounts(); err != nil && where != here {
		return false, err
	}
	if err := p.recover(ifname, dir, o, lostState); err != nil {
		return false, fmt.Errorf("%s: make the pins of a live data plane again: %w; `softroce-xdp detach %[1]s` removes it", ifname, err)
	}
	return true, nil
}

// missingPins lists what every attachment of this version has in its pin directory and this one
// has not.
func missingPins(dir string) (missing []string) {
	names := []string{pinIngressLink, pinAgentCall, pinEngineSync}
	for name := range new(Attachment).pinnedMaps() {
		if !addedMaps[name] {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if !exists(filepath.Join(dir, name)) {
			missing = append(missing, name)
		}
	}
	return missing
}

// recover pins what the kernel has of the data plane, and writes the state file.
func (p *parts) recover(ifname, dir string, o Options, lostState bool) error {
	if err := ensureBPFFS(o.PinRoot); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, pinRunDir)); errors.Is(err, os.ErrNotExist) {
		if err := linkRunDir(dir, o.RunDir); err != nil {
			return err
		}
	}
	a := &Attachment{Dir: dir, opts: o}
	defer a.Close()
	if err := p.objects(a); err != nil {
		return err
	}
	a.opts.Clock = p.clock() // that of the programs which go on
	for name, m := range a.pinnedMaps() {
		path := filepath.Join(dir, name)
		if *m == nil && exists(path) { // no program has it: that of the agent is lost
			var err error
			if *m, err = ebpf.LoadPinnedMap(path, nil); err != nil {
				return err
			}
		}
		if *m != nil {
			if err := pinOnce(*m, path); err != nil {
				return err
			}
		}
	}
	if err := checkLayout(ifname, dir); err != nil {
		return err
	}
	if err := a.completePrograms(); err != nil {
		return err
	}
	for name, prog := range map[string]*ebpf.Program{pinAgentCall: a.agentCall, pinEngineSync: a.engineSync} {
		if err := pinOnce(prog, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := p.pinLinks(a); err != nil {
		return err
	}
	if !lostState {
		return nil
	}
	return p.writeState(ifname, a)
}

// objects opens the maps and programs of the data plane by their IDs.
func (p *parts) objects(a *Attachment) error {
	config, err := a.addProgramMaps(p.xdp, 0)
	if err != nil {
		return err
	}
	if p.egress != 0 {
		if _, err := a.addProgramMaps(p.egress, 0); err != nil {
			return err
		}
	}
	for id, err := ebpf.ProgramGetNextID(0); err == nil; id, err = ebpf.ProgramGetNextID(id) {
		for _, x := range []struct {
			name string
			to   **ebpf.Program
		}{{"softroce_agent_call", &a.agentCall}, {"softroce_engine_sync", &a.engineSync}} {
			if *x.to != nil || !isProgram(id, x.name) {
				continue
			}
			if same, err := a.addProgramMaps(id, config); err != nil || same != config {
				continue
			}
			if *x.to, err = ebpf.NewProgramFromID(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// addProgramMaps opens the maps of a program that a lacks, and returns the ID of its config map.
// With config, it does so only if that is the config map.
func (a *Attachment) addProgramMaps(id ebpf.ProgramID, config ebpf.MapID) (ebpf.MapID, error) {
	prog, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return 0, err
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		return 0, err
	}
	ids, _ := info.MapIDs()
	found := map[string]*ebpf.Map{}
	defer func() {
		for _, m := range found {
			m.Close()
		}
	}()
	var own ebpf.MapID
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return 0, err
		}
		info, err := m.Info()
		if err != nil {
			m.Close()
			return 0, err
		}
		found[info.Name] = m
		if info.Name == bpf.SoftroceMapConfig {
			own = id
		}
	}
	if config != 0 && own != config {
		return own, nil
	}
	for name, to := range a.pinnedMaps() {
		if m := found[name]; m != nil && *to == nil {
			*to = m
			delete(found, name)
		}
	}
	return own, nil
}

// completePrograms loads the programs and maps that only an agent keeps, if none does.
func (a *Attachment) completePrograms() error {
	reuse, missing := a.openMaps()
	if len(missing) == 0 && a.agentCall != nil && a.engineSync != nil {
		return nil
	}
	objs, err := load(a.opts, reuse)
	if err != nil {
		return err
	}
	defer objs.Close()
	if err := a.addMaps(objs, missing); err != nil {
		return err
	}
	if a.agentCall == nil {
		if a.agentCall, err = objs.SoftroceAgentCall.Clone(); err != nil {
			return err
		}
	}
	if a.engineSync == nil {
		a.engineSync, err = objs.SoftroceEngineSync.Clone()
	}
	return err
}

// pinner is a map, a program or a link.
type pinner interface{ Pin(string) error }

// pinOnce pins an object unless the pin exists.
func pinOnce(x pinner, path string) error {
	if exists(path) {
		return nil
	}
	if err := x.Pin(path); err != nil && !errors.Is(err, os.ErrExist) { // the agent may do the same
		return fmt.Errorf("pin %s: %w", filepath.Base(path), err)
	}
	return nil
}

// pinLinks pins the links, and the program of a filter.
func (p *parts) pinLinks(a *Attachment) error {
	switch {
	case p.tcx != 0:
		l, err := link.NewFromID(p.tcx)
		if err != nil {
			return err
		}
		defer l.Close()
		if err := pinOnce(l, filepath.Join(a.Dir, pinEgressLink)); err != nil {
			return err
		}
	case p.filter:
		prog, err := ebpf.NewProgramFromID(p.egress)
		if err != nil {
			return err
		}
		defer prog.Close()
		if err := pinOnce(prog, filepath.Join(a.Dir, pinEgressProg)); err != nil {
			return err
		}
	}
	path := filepath.Join(a.Dir, pinIngressLink)
	var errs []error
	err := eachLink(func(i *link.Info) bool { return i.XDP() != nil && i.Program == p.xdp },
		func(l link.Link) { errs = append(errs, pinOnce(l, path)) })
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	if !exists(path) {
		return errors.New("the XDP program has no link")
	}
	return nil
}

// writeState writes a state file by what the interface and the maps show. What they do not show
// are the defaults: no node file, no device.
func (p *parts) writeState(ifname string, a *Attachment) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	s := State{
		Interface: ifname, Ifindex: p.dev.Attrs().Index, Netns: NetnsInode(), PinRoot: a.opts.PinRoot, Version: a.opts.Version,
		Attached: time.Now().UTC().Truncate(time.Second), XDPMode: XDPNative, Egress: EgressTCX, RateFrom: "flag",
		OwnQdisc: p.qdisc, Clock: a.opts.Clock,
	}
	if p.dev.Attrs().Xdp.AttachMode == xdpGeneric {
		s.XDPMode = XDPGeneric
	}
	if p.tcx == 0 {
		s.Egress, s.OwnClsact = EgressClsact, true
	}
	for _, k := range pacer.Kinds {
		if k.Number() == cfg.Pacer {
			s.Pacer = k
		}
	}
	if s.Pacer == pacer.HTB {
		s.OwnQdisc = true // as soon as there are classes
	}
	if p.agent != nil {
		s.AgentPID = p.agent.pid
	}
	return writeState(a.opts.RunDir, s)
}

// xdpGeneric is XDP_ATTACHED_SKB of linux/if_link.h.
const xdpGeneric = 2

// clock returns the clock of the stamps, which is a constant of the programs.
func (p *parts) clock() StampClock {
	spec, err := bpf.LoadSoftroce()
	if err != nil {
		return ClockMonotonic
	}
	v := spec.Variables[bpf.SoftroceVarClockTai]
	prog, err := ebpf.NewProgramFromID(p.xdp)
	if err != nil {
		return ClockMonotonic
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		return ClockMonotonic
	}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue
		}
		b, err := m.LookupBytes(uint32(0))
		i, err2 := m.Info()
		m.Close()
		at := int(v.Offset)
		if err == nil && err2 == nil && i.Name == rodata && at < len(b) && b[at] == 1 {
			return ClockTAI
		}
	}
	return ClockMonotonic
}

// rodata is the name of the map of the constants.
const rodata = ".rodata"
