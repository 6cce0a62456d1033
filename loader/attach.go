// SPDX-License-Identifier: Apache-2.0

// Package loader is the control plane: it attaches the data plane (package bpf) to
// interfaces, upgrades it in place, pins programs and maps, and gives typed views of the
// maps. Package loader/agent runs the policies.
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
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/loader/pacer"
)

// An Attachment is the data plane on one interface.
type Attachment struct {
	State State
	Dir   string // directory of the pins
	Maps  bpf.SoftroceMaps

	agentCall  *ebpf.Program
	engineSync *ebpf.Program
	programs   programs
	opts       Options
	ingress    link.Link
	egress     link.Link   // nil with clsact
	egressID   link.ID     // ID of the egress link, 0 = not read yet
	stateSeen  os.FileInfo // description of the state file that CheckState has accepted
	pinsSeen   unix.Stat_t // status of the directory of the pins when all were there
}

// ErrAttached: the data plane is attached to the interface already.
var ErrAttached = errors.New("already attached")

// ErrNotAttached: the data plane is not attached to the interface.
var ErrNotAttached = errors.New("not attached")

// Attach attaches the data plane to an interface and pins it. When it returns, packets are
// handled; the agent is not started. If a step fails, the steps before it are undone.
func Attach(ifname string, o Options) (*Attachment, error) {
	o = o.withDefaults()
	if err := checkPrivileges(); err != nil {
		return nil, err
	}
	iface, err := FindIface(ifname)
	if err != nil {
		return nil, err
	}
	ifname = iface.Name // the argument may be an altname
	if err := iface.checkEthernet(); err != nil {
		return nil, err
	}
	if err := ensureBPFFS(o.PinRoot); err != nil {
		return nil, err
	}
	kernel := KernelFeatures()
	if err := MissingFeatures(kernel); err != nil {
		return nil, err
	}
	if o.Clock == ClockTAI && !HaveFeature(kernel, FeatureTAI) {
		return nil, fmt.Errorf("this kernel lacks %s (Linux 6.1 and later): --clock monotonic does without", FeatureTAI)
	}
	release, err := o.control(ifname)
	if err != nil {
		return nil, err
	}
	defer release()
	if iface, err = FindIface(ifname); err != nil { // another process may have changed it while this one waited
		return nil, err
	}
	if err := makeRoom(ifname, iface, o); err != nil {
		return nil, err
	}
	a, err := build(iface, o)
	if err != nil {
		if _, now := netlink.LinkByIndex(iface.Index); now != nil {
			return nil, fmt.Errorf("%s was deleted while it was being attached (%w)", ifname, err)
		}
	}
	return a, err
}

// build makes the attachment of an interface without remains of an earlier one.
func build(iface Iface, o Options) (_ *Attachment, err error) {
	a := &Attachment{Dir: PinDir(o.PinRoot, iface.Name), opts: o}
	// The state file comes first: if this process is killed, it says what to undo.
	a.State = State{
		Interface: iface.Name, Ifindex: iface.Index, Netns: NetnsInode(), PinRoot: o.PinRoot, Version: o.Version,
		Attached: time.Now().UTC().Truncate(time.Second), Clock: o.Clock, NodeFile: o.NodeFile,
		NIC:    o.NIC,
		Egress: EgressClsact, OwnQdisc: true, QueueLen: &iface.TxQueueLen,
	}
	defer func() {
		if err != nil {
			a.Close()
			err = errors.Join(err, takeOff(iface.Name, o))
		}
	}()
	if err := writeState(o.RunDir, a.State); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(a.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("pin directory: %w", err)
	}
	if err := linkRunDir(a.Dir, o.RunDir); err != nil {
		return nil, err
	}
	objs, err := load(o, nil)
	if err != nil {
		return nil, err
	}
	a.Maps, a.agentCall, a.engineSync = objs.SoftroceMaps, objs.SoftroceAgentCall, objs.SoftroceEngineSync
	a.programs = programs{objs.SoftroceIngress, objs.SoftroceEgress}
	if err := a.pinMaps(); err != nil {
		return nil, err
	}
	p, err := pacer.Setup(iface.Link, o.Pacer)
	if err != nil {
		return nil, err
	}
	a.State.Pacer, a.State.OwnQdisc = p.Kind(), p.OwnQdisc()
	if err := a.writeConfig(iface, p.Kind()); err != nil {
		return nil, err
	}
	// Egress comes first: it sends stamps only to a peer that has answered a HELLO, and
	// answers need ingress. Ingress announces that this host understands the option.
	if err := a.attachEgress(iface, objs.SoftroceEgress); err != nil {
		return nil, err
	}
	if err := a.attachIngress(iface, objs.SoftroceIngress); err != nil {
		return nil, err
	}
	return a, writeState(o.RunDir, a.State)
}

// makeRoom checks the interface and its pin directory: a live attachment and a foreign
// program are errors; the remains of an earlier attachment are removed.
func makeRoom(ifname string, iface Iface, o Options) error {
	dir := PinDir(o.PinRoot, ifname)
	where, dev := locate(dir)
	if where == elsewhere {
		return fmt.Errorf("%w, or use another --pin-root and --run-dir here", elsewhereError(ifname, o))
	}
	if err := checkRunDir(ifname, o); err != nil {
		return err
	}
	if err := checkPinRoot(ifname, o); err != nil {
		return err
	}
	switch {
	case where == here && dev.Attrs().Index != iface.Index:
		return checkRenamed(ifname, dir, dev)
	case where == here:
		return fmt.Errorf("%s: %w", ifname, ErrAttached)
	}
	stray := partsOf(iface.Link)
	if err := stray.foreign(o); err != nil {
		return err
	}
	if stray.xdp != 0 || stray.agent != nil {
		return stray.explain(o)
	}
	if iface.XDPProg != 0 {
		return fmt.Errorf("%s carries an XDP program of somebody else: %s. Detach that first (`bpftool net` shows it; `ip link set dev %s xdp off` removes one that has no link)",
			ifname, programName(iface.XDPProg), ifname)
	}
	if err := StopAgent(o.RunDir, ifname, stopPatience); err != nil { // of an interface that was deleted
		return err
	}
	if err := takeOff(ifname, o); err != nil {
		return fmt.Errorf("%s: what was left of an earlier attach: %w", ifname, err)
	}
	return stray.detach() // a filter or a qdisc of an attachment whose pins and state are lost
}

func ifindexOf(l link.Link) int {
	info, err := l.Info()
	if err != nil {
		return 0
	}
	if x := info.XDP(); x != nil {
		return int(x.Ifindex)
	}
	if x := info.TCX(); x != nil {
		return int(x.Ifindex)
	}
	return 0
}

// load makes the programs and maps; reuse are maps to keep (upgrade in place).
func load(o Options, reuse map[string]*ebpf.Map) (*bpf.Objects, error) {
	spec, err := bpf.LoadSoftroce()
	if err != nil {
		return nil, err
	}
	if reuse == nil {
		// The kernel rounds the number of buckets up to a power of two: one entry more
		// doubles it for the usual sizes, which halves the chains (bpf/lib/maps.h).
		spec.Maps[bpf.SoftroceMapDestTable].MaxEntries = o.MaxDests + 1
		spec.Maps[bpf.SoftroceMapActive].MaxEntries = o.MaxDests
	} else {
		for name, m := range reuse {
			spec.Maps[name].MaxEntries = m.MaxEntries()
		}
	}
	switch o.Clock {
	case ClockMonotonic:
	case ClockTAI:
		if err := spec.Variables[bpf.SoftroceVarClockTai].Set(uint8(1)); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("no clock %q: choose monotonic or tai", o.Clock)
	}
	var objs bpf.Objects
	err = spec.LoadAndAssign(&objs, &ebpf.CollectionOptions{MapReplacements: reuse})
	var ve *ebpf.VerifierError
	switch {
	case errors.As(err, &ve):
		return nil, fmt.Errorf("the kernel's verifier refuses the data plane (please report this with `uname -r`): %w", err)
	case errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("load the data plane: %w: run as root; in a container, CAP_BPF and CAP_NET_ADMIN are needed", err)
	case err != nil:
		return nil, fmt.Errorf("load the data plane: %w", err)
	}
	return &objs, nil
}

// pinnedMaps returns the maps that are pinned, by the names of their pins.
func (a *Attachment) pinnedMaps() map[string]**ebpf.Map {
	m := &a.Maps
	return map[string]**ebpf.Map{
		bpf.SoftroceMapDestTable: &m.DestTable, bpf.SoftroceMapSteerTable: &m.SteerTable,
		bpf.SoftroceMapXsks: &m.Xsks, bpf.SoftroceMapConfig: &m.Config, bpf.SoftroceMapStats: &m.Stats,
		bpf.SoftroceMapEvents: &m.Events, bpf.SoftroceMapActive: &m.Active,
		bpf.SoftroceMapCallBuffer: &m.CallBuffer, bpf.SoftroceMapHelloLimit: &m.HelloLimit,
		bpf.SoftroceMapScratch: &m.Scratch,

		bpf.SoftroceMapAgentRests: &m.AgentRests, bpf.SoftroceMapCreditEpoch: &m.CreditEpoch,
		bpf.SoftroceMapRateLimits: &m.RateLimits, bpf.SoftroceMapArrivalLimits: &m.ArrivalLimits,
		bpf.SoftroceMapArrivalCounts: &m.ArrivalCounts, bpf.SoftroceMapLimitState: &m.LimitState,
		bpf.SoftroceMapOwnAddresses: &m.OwnAddresses, bpf.SoftroceMapOwnState: &m.OwnState, bpf.SoftroceMapTxTokens: &m.TxTokens,
		bpf.SoftroceMapCmServices: &m.CmServices, bpf.SoftroceMapCmRequests: &m.CmRequests, bpf.SoftroceMapCmIds: &m.CmIds,
	}
}

// addedMaps may be missing in an attachment of an earlier version with the same layout. Upgrade
// adds them.
var addedMaps = map[string]bool{
	bpf.SoftroceMapCmServices: true, bpf.SoftroceMapCmRequests: true, bpf.SoftroceMapCmIds: true,
	bpf.SoftroceMapAgentRests: true, bpf.SoftroceMapCreditEpoch: true,
	bpf.SoftroceMapRateLimits: true, bpf.SoftroceMapArrivalLimits: true, bpf.SoftroceMapArrivalCounts: true,
	bpf.SoftroceMapLimitState:   true,
	bpf.SoftroceMapOwnAddresses: true, bpf.SoftroceMapOwnState: true, bpf.SoftroceMapTxTokens: true,
}

func (a *Attachment) pinMaps() error {
	for name, m := range a.pinnedMaps() {
		if err := (*m).Pin(filepath.Join(a.Dir, name)); err != nil {
			return fmt.Errorf("pin %s: %w", name, err)
		}
	}
	if err := a.agentCall.Pin(filepath.Join(a.Dir, pinAgentCall)); err != nil {
		return fmt.Errorf("pin the agent call program: %w", err)
	}
	if err := a.engineSync.Pin(filepath.Join(a.Dir, pinEngineSync)); err != nil {
		return fmt.Errorf("pin the engine sync program: %w", err)
	}
	for name, p := range a.programs.pins() {
		if err := p.Pin(filepath.Join(a.Dir, name)); err != nil {
			return fmt.Errorf("pin %s: %w", name, err)
		}
	}
	return nil
}

func (a *Attachment) writeConfig(i Iface, kind pacer.Kind) error {
	rate := a.opts.RateBps
	a.State.RateFrom = "flag"
	if rate == 0 {
		rate, a.State.RateFrom = i.RateBps, "ethtool"
	}
	if rate == 0 {
		rate, a.State.RateFrom = DefaultRateBps, "default"
	}
	if err := CheckRate(rate); err != nil {
		return err
	}
	params := fourcase.DefaultParams(rate)
	if a.opts.Policy != nil {
		a.opts.Policy(&params)
	}
	if err := params.Validate(); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	cfg := bpf.Config{
		AbiVersion: bpf.ABIVersion, Pacer: kind.Number(), Node: a.opts.Node, Caps: uint32(bpf.CapStamp),
		Mtu: uint32(i.MTU), HelloRate: a.opts.HelloRate, Mac: i.MAC,
		HeartbeatTimeoutNs: uint64(a.opts.Heartbeat), HeartbeatNs: Monotonic(),
		LinkRateBps: rate, InitialRateBps: rate, BurstNs: uint64(pacer.Burst),
		Policy: *bpf.ParamsFrom(&params), Secret: bpf.NewSecret(),
	}
	prio, _ := bpf.PriorityAs[priority.Params, priority.State](&cfg)
	*prio = a.opts.Priority
	if a.opts.WindowOff {
		cfg.WindowOff = 1
	}
	if i.Link.Type() == "veth" {
		cfg.HelloByAgent = 1 // bpf/lib/control.h says why
	}
	if err := a.Maps.Config.Put(uint32(0), cfg); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	return nil
}

func (a *Attachment) attachIngress(i Iface, prog *ebpf.Program) error {
	modes := []struct {
		name  XDPMode
		flags link.XDPAttachFlags
	}{{XDPNative, link.XDPDriverMode}, {XDPGeneric, link.XDPGenericMode}}
	var errs error
	for _, m := range modes {
		if a.opts.XDPMode != XDPAuto && a.opts.XDPMode != m.name {
			continue
		}
		l, err := attachXDP(link.XDPOptions{Program: prog, Interface: i.Index, Flags: m.flags})
		if err == nil {
			a.State.XDPMode = m.name
			a.ingress = l
			if err := l.Pin(filepath.Join(a.Dir, pinIngressLink)); err != nil {
				return fmt.Errorf("pin the ingress link: %w", err)
			}
			return nil
		}
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("%s: another XDP program was attached while we did: %w", i.Name, err)
		}
		errs = errors.Join(errs, fmt.Errorf("%s mode: %w", m.name, err))
	}
	if errs == nil {
		return fmt.Errorf("no XDP mode %q: choose auto, native or generic", a.opts.XDPMode)
	}
	return fmt.Errorf("%s: attach XDP: %w (a driver may need more queues, `ethtool -L`, or a smaller MTU; --xdp-mode generic needs no driver)", i.Name, errs)
}

func attachXDP(o link.XDPOptions) (link.Link, error) {
	if err := DeniedFeature(FeatureNativeXDP); err != nil && o.Flags == link.XDPDriverMode {
		return nil, err
	}
	return link.AttachXDP(o)
}

// Close closes the attachment's descriptors. The data plane stays.
func (a *Attachment) Close() {
	for _, m := range a.pinnedMaps() {
		if *m != nil {
			(*m).Close()
		}
	}
	if a.agentCall != nil {
		a.agentCall.Close()
	}
	if a.engineSync != nil {
		a.engineSync.Close()
	}
	a.programs.close()
	if a.ingress != nil {
		a.ingress.Close()
	}
	if a.egress != nil {
		a.egress.Close()
	}
}
