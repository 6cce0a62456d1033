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

// prepare adds entries for the nodes of the node file to the table as it is, and schedules a
// HELLO to every destination in the table.
func (a *Agent) prepare() error {
	var others []netip.Addr
	for _, n := range a.file.Nodes {
		for _, addr := range n.Addresses {
			if n.Number != a.cfg.Node && !a.isLocal(addr) {
				others = append(others, addr)
			}
		}
	}
	a.dests = len(others)
	a.evenShare() // before the first entry, so that all get the same rate
	for _, addr := range others {
		a.addEntry(addr, 0, 0)
	}
	var unhandled []bpf.DestKey // by any agent
	a.dests = 0
	err := a.att.EachRow(func(r loader.Row) {
		if r.Regs.Node == 0 {
			unhandled = append(unhandled, bpf.KeyOf(r.Addr))
			return
		}
		a.dests++
		if r.Regs.ClassId != 0 && r.Regs.Policy.Decisions == 0 && r.Regs.Policy.State != 0 {
			// The previous agent may have ended in a baseline pause, which lowers the rate of
			// the class.
			if _, err := a.pacer.SetRate(r.Regs.ClassId, r.Regs.StackRateBps); err != nil {
				a.log.Warn("pacer", "peer", r.Addr, "err", err)
			}
		}
		a.nodes.Used(r.Regs.Node)
		a.peers.Adopt(bpf.KeyOf(r.Addr), r.Regs.Caps, loader.Monotonic())
	})
	a.evenShare()
	for _, key := range unhandled {
		a.handleNewDest(key)
	}
	debug.FreeOSMemory() // walking a large table leaves much garbage
	return err
}

// evenShare writes the rate at which a new destination starts: initial_rate_bps of the
// policy if it is set, else the even share of the link among all entries (S1.2).
func (a *Agent) evenShare() {
	p := &a.cfg.Policy
	rate := max(fourcase.EvenShare(a.cfg.LinkRateBps, a.dests), p.MinRateBps)
	if p.InitialRateBps != 0 {
		rate = p.InitialRateBps
	}
	atomic.StoreUint64(&a.cfg.InitialRateBps, rate)
}

// handleNewDest handles a new destination, whose entry egress or the engine has created: it sends
// a HELLO, assigns the node number, and sets window and class. An entry that has a number was
// handled before, and does not change.
func (a *Agent) handleNewDest(key bpf.DestKey) {
	peer := bpf.AddrOf(key)
	row, found, err := a.att.Lookup(peer)
	if err != nil || !found || row.Regs.Node != 0 {
		return
	}
	now := loader.Monotonic()
	a.peers.Add(key, row.Regs.Caps, now)
	// The HELLO leaves first: its answer is the base delay, and a sender at full speed
	// fills the queue of a bottleneck within milliseconds.
	a.sendHellos(now)

	slot := &a.x.Slots[0]
	slot.Key = key
	if err := a.x.Read(1); err != nil || slot.Found == 0 {
		return
	}
	st := stepOf(slot)
	st.node = a.nodes.Assign(peer)
	st.set |= bpf.SetNode
	a.log.Info("new destination", "peer", peer, "node", st.node)
	if st.policy.Decisions == 0 {
		// This is before the first data if queue pairs connect first.
		a.window(&st.policy, bpf.ParamsAs[fourcase.Params](&a.cfg.Policy), st.rate)
		st.set |= bpf.SetPolicy
	}
	if st.class == 0 && st.rate != 0 {
		st.setClass(a.classFor(st.key, st.class, st.stackRate))
	}
	st.store(slot)
	if err := a.x.Apply(1); err != nil {
		a.log.Warn("new destination", "peer", peer, "err", err)
		return
	}
	a.dests++
	a.evenShare()
}

// addEntry creates an entry before traffic: for the nodes of the node file, and for peers
// that only send (UC, UD) once they have proved their address. The entry has its class from
// the start, so that the first packet is paced, and the root qdisc is changed before a
// packet can be lost by that. token is the token that stamps to the peer must carry. It
// reports whether an entry was created.
func (a *Agent) addEntry(peer netip.Addr, token uint64, caps uint16) bool {
	if _, found, err := a.att.Lookup(peer); err != nil || found {
		return false
	}
	key := bpf.KeyOf(peer)
	d := &bpf.DestRegs{
		RxToken: a.control.secret.Token(key), TxToken: token, Node: a.nodes.Assign(peer), Caps: caps,
		LastTxNs: loader.Monotonic() + a.clockOffset, // on the clock of the stamps
		RateBps:  a.cfg.InitialRateBps, WinTxNs: bpf.NoSample, WinRxNs: bpf.NoSample, WinRttNs: bpf.NoSample,
	}
	d.Policy.RateBps, d.StackRateBps, d.EngineRateBps = d.RateBps, d.RateBps, d.RateBps
	a.window(bpf.PolicyAs[fourcase.Regs](&d.Policy), bpf.ParamsAs[fourcase.Params](&a.cfg.Policy), d.RateBps)
	d.ClassId = a.classFor(key, 0, d.RateBps)
	if err := a.att.Maps.DestTable.Update(key, d, ebpf.UpdateNoExist); err != nil {
		if err := a.pacer.Release(d.ClassId); err != nil {
			a.log.Warn("pacer", "peer", peer, "err", err)
		}
		if !errors.Is(err, ebpf.ErrKeyExist) {
			a.log.Warn("add destination", "peer", peer, "err", err)
		}
		return false
	}
	a.peers.Add(key, caps, loader.Monotonic())
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

// measured reports whether an echo has measured the path to a destination; also true if the
// entry cannot be read.
func (a *Agent) measured(peer netip.Addr) bool {
	r, found, err := a.att.Lookup(peer)
	return err != nil || !found || r.Regs.LastEchoT1Ns != 0
}

// used reports whether the destination had traffic since a time, monotonic ns; also true if
// the entry cannot be read.
func (a *Agent) used(key bpf.DestKey, since uint64) bool {
	r, found, err := a.att.Lookup(bpf.AddrOf(key))
	return err != nil || found && lastUsed(&r.Regs, a.clockOffset) >= since
}
