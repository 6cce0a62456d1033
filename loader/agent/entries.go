// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/netip"
	"runtime/debug"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/loader"
)

// prepare takes over the table as it is: the nodes of the node file get entries,
// and everybody in the table hears from us sooner or later.
func (a *Agent) prepare() error {
	var others []netip.Addr
	for _, n := range a.nodes.list {
		for _, addr := range n.Addresses {
			if n.Number != a.cfg.Node && !a.isLocal(addr) {
				others = append(others, addr)
			}
		}
	}
	a.dests = len(others)
	a.evenShare() // each gets the same, the first as the last
	for _, addr := range others {
		a.addEntry(addr, 0, 0)
	}
	count := 0
	err := a.att.EachRow(func(r loader.Row) {
		count++
		if r.Regs.ClassId != 0 && r.Regs.Policy.Decisions == 0 && r.Regs.Policy.State != 0 {
			// The agent before may have ended in the pause that slows a class.
			if _, err := a.pacer.SetRate(r.Regs.ClassId, r.Regs.StackRateBps); err != nil {
				a.log.Warn("pacer", "peer", r.Addr, "err", err)
			}
		}
		a.nodes.seen(r.Regs.Node)
		greet := a.hello.adopt
		if r.Regs.Node == 0 { // no agent has seen it yet
			greet = a.hello.add
		}
		greet(bpf.KeyOf(r.Addr), r.Regs.Caps, loader.Monotonic())
	})
	a.dests = count
	a.evenShare()
	debug.FreeOSMemory() // a walk over a large table leaves much behind
	return err
}

// evenShare splits the link's rate over the destinations that are known (S1.2):
// it is what the next new one starts with, unless somebody knows better.
func (a *Agent) evenShare() {
	p := &a.cfg.Policy
	rate := max(fourcase.EvenShare(a.cfg.LinkRateBps, a.dests), p.MinRateBps)
	if p.InitialRateBps != 0 {
		rate = p.InitialRateBps
	}
	atomic.StoreUint64(&a.cfg.InitialRateBps, rate)
}

// welcome numbers a destination that egress has just created, gives it its class
// and introduces us.
func (a *Agent) welcome(e bpf.Event) {
	peer := bpf.AddrOf(e.Peer)
	a.dests++
	a.evenShare()
	now := loader.Monotonic()
	a.hello.add(e.Peer, 0, now)
	// At once, before anything else: the answer is the baseline, and a sender at
	// full speed fills a bottleneck's queue within milliseconds.
	a.greet(now)

	slot := &a.x.Slots[0]
	slot.Key = e.Peer
	if err := a.x.Read(1); err != nil || slot.Found == 0 {
		return
	}
	slot.Op = 0
	if slot.Regs.Node == 0 {
		slot.Op, slot.Regs.Node = bpf.SetNode, a.nodes.number(peer)
	}
	a.log.Info("new destination", "peer", peer, "node", slot.Regs.Node)
	if d := &slot.Regs; d.Policy.Decisions == 0 {
		// Before its first data, if that takes a moment, as with queue pairs that connect.
		a.window(d, bpf.ParamsAs[fourcase.Params](&a.cfg.Policy), d.RateBps)
		slot.Op |= bpf.SetPolicy
	}
	if slot.Regs.ClassId == 0 && slot.Regs.RateBps != 0 {
		a.setClass(slot, slot.Regs.StackRateBps)
	}
	if err := a.x.Apply(1); err != nil {
		a.log.Warn("new destination", "peer", peer, "err", err)
	}
}

// addEntry makes an entry ahead of traffic: for the nodes of the node file, and
// for peers that only ever send to us (UC, UD) once they have proved their
// address. It has its class from the start, so that the first packet is paced, and
// the pacer has made room for itself before there is one to lose. token is what stamps to
// the peer must carry.
func (a *Agent) addEntry(peer netip.Addr, token uint64, caps uint16) bool {
	if _, found, err := a.att.Lookup(peer); err != nil || found {
		return false
	}
	key := bpf.KeyOf(peer)
	slot := bpf.ExchangeSlot{Key: key, Regs: bpf.DestRegs{
		RxToken: a.hello.secret.Token(key), TxToken: token, Node: a.nodes.number(peer), Caps: caps, LastTxNs: loader.Monotonic(),
		RateBps: a.cfg.InitialRateBps, WinTxNs: bpf.NoSample, WinRxNs: bpf.NoSample, WinRttNs: bpf.NoSample,
	}}
	d := &slot.Regs
	d.Policy.RateBps, d.StackRateBps, d.EngineRateBps = d.RateBps, d.RateBps, d.RateBps
	a.window(d, bpf.ParamsAs[fourcase.Params](&a.cfg.Policy), d.RateBps)
	a.setClass(&slot, d.RateBps)
	if err := a.att.Maps.DestTable.Update(slot.Key, d, ebpf.UpdateNoExist); err != nil {
		if err := a.pacer.Release(d.ClassId); err != nil {
			a.log.Warn("pacer", "peer", peer, "err", err)
		}
		if !errors.Is(err, ebpf.ErrKeyExist) {
			a.log.Warn("add destination", "peer", peer, "err", err)
		}
		return false
	}
	a.hello.add(key, caps, loader.Monotonic())
	return true
}

// unaware stops stamping to a peer that no longer answers HELLO.
func (a *Agent) unaware(key bpf.DestKey) {
	slot, peer := &a.x.Slots[0], bpf.AddrOf(key)
	slot.Key, slot.Op, slot.Regs.Caps = key, bpf.SetCaps, 0
	if err := a.x.Apply(1); err != nil {
		a.log.Warn("clear capabilities", "peer", peer, "err", err)
		return
	}
	a.log.Info("peer stopped answering HELLO: no more stamps to it", "peer", peer)
}

// measured reports whether anything is known of the way to a destination.
func (a *Agent) measured(peer netip.Addr) bool {
	r, found, err := a.att.Lookup(peer)
	return err != nil || !found || r.Regs.EchoSeenNs != 0
}

// used reports whether the destination had traffic since then.
func (a *Agent) used(key bpf.DestKey, since uint64) bool {
	r, found, err := a.att.Lookup(bpf.AddrOf(key))
	return err != nil || found && lastUsed(&r.Regs, a.clockOffset) >= since
}
