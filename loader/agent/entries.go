// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/pacer"
)

// memoryBack is when the agent gives memory back once more: the first ticks over a large table take some.
const memoryBack = 5 * time.Second

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
	a.loop.EvenShareOf(len(others)) // before the first entry, so that all get the same rate
	for _, addr := range others {
		a.addEntry(addr, 0, 0, 0)
	}
	var unhandled []bpf.DestKey // by any agent
	var paced []classRate
	a.dests = 0
	err := a.att.EachRow(func(r loader.Row) {
		if r.Regs.Node == 0 {
			unhandled = append(unhandled, bpf.KeyOf(r.Addr))
			return
		}
		a.dests++
		if r.Regs.ClassId != 0 {
			paced = append(paced, classRate{r.Regs.ClassId, r.Regs.StackRateBps})
		}
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
	// An earlier agent may have had an engine with other capabilities, or this one has an engine and that one had none.
	// watchEngine sees no change of it.
	a.peers.Announce(loader.Monotonic())
	a.restoreClasses(paced)
	a.loop.EvenShare(loader.Monotonic())
	for _, key := range unhandled {
		a.handleNewDest(key)
	}
	debug.FreeOSMemory() // walking a large table leaves much garbage
	time.AfterFunc(memoryBack, debug.FreeOSMemory)
	return err
}

// classRate is the class of a destination, and its rate in bit/s.
type classRate struct {
	class uint32
	bps   uint64
}

// restoreClasses creates the classes of the table again, if somebody has removed them or their
// root qdisc while no agent ran.
func (a *Agent) restoreClasses(paced []classRate) {
	classes := make([]uint32, len(paced))
	for i, p := range paced {
		classes[i] = p.class
	}
	c, err := pacer.Inspect(a.iface.Link, a.pacer.Kind(), a.pacer.OwnQdisc(), classes)
	if err == nil && !c.Damaged() && c.Other == "" {
		return
	}
	for _, p := range paced {
		if _, err = a.pacer.SetRate(p.class, p.bps); err != nil && c.Other == "" {
			break
		}
	}
	if err != nil {
		a.log.Warn("pacer", "err", err)
	}
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

	found, err = a.loop.Number(key, func() uint32 {
		node := a.nodes.Assign(peer)
		a.log.Info("new destination", "peer", peer, "node", node)
		return node
	})
	if err != nil {
		a.log.Warn("new destination", "peer", peer, "err", err)
	}
	if err != nil || !found {
		return
	}
	a.dests++
	a.loop.EvenShare(now)
}

// addEntry creates an entry before traffic: for the nodes of the node file, and for peers
// that only send (UC, UD) once they have proved their address. The entry has its class from
// the start, so that the first packet is paced, and the root qdisc is changed before a
// packet can be lost by that. token is the token that stamps from own (bpf.OwnWord) to the peer
// must carry; both are 0 if the peer has given none. It reports whether an entry was created.
func (a *Agent) addEntry(peer netip.Addr, own, token uint64, caps uint16) bool {
	if _, found, err := a.att.Lookup(peer); err != nil || found {
		return false
	}
	key := bpf.KeyOf(peer)
	d := a.loop.First(key)
	d.RxToken, d.TxToken, d.Node, d.Caps = a.control.secret.Token(key), token, a.nodes.Assign(peer), caps
	d.TxOwn = own
	d.LastTxNs = loader.Monotonic() + a.clockOffset // on the clock of the stamps
	d.ValidAfterNs = d.LastTxNs                     // a peer may echo a stamp from before this host was attached again
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
	peer := bpf.AddrOf(key)
	if err := a.loop.ClearCaps(key); err != nil {
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
