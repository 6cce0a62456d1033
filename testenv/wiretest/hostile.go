// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Hostile is a peer that sends whatever it likes to one queue pair, in packets
// that are RoCEv2 at least. The queue pair must not panic, not write where it was
// not allowed to, and go on to work for a well-behaved peer, or be in error.
type Hostile struct {
	*Wire
	Victim *Endpoint
	node   *Node // node of the victim
	peer   *Node
	pmtu   int
	psn    rocev2.PSN // next in turn, as far as the peer knows
	read   *Region    // region that the victim's peer may only read
	dead   uint32     // a key that was invalidated
}

// NewHostile makes a victim: a queue pair in RTS with some receives posted.
func NewHostile(c Choices, t verbs.QPType) *Hostile {
	s := Settings{
		Type: t, PMTU: rocev2.PMTU(1 + c.Choose("PMTU", 3)), Selective: t == verbs.RC && c.Choose("selective", 2) == 1,
		RdAtomic: 4, Timeout: 10, RetryCnt: 2, RNRRetry: 2, MinRNRTimer: 5,
		MaxSend: 8, Receives: 1 + c.Choose("receives", 4), SRQ: c.Choose("SRQ", 3) == 1, Hold: []int{100, 3}[c.Choose("hold", 2)],
	}
	s.Start[1] = 1<<24 - 3
	h := &Hostile{Wire: New(1), pmtu: s.PMTU.Bytes(), psn: rocev2.PSN(s.Start[1])}
	h.node = h.NewNode("victim", 1, c.Choose("IPv6", 2) == 1, 10e9, s.Hold)
	h.peer = h.NewNode("hostile", 2, !h.node.Addr.Is4(), 10e9, 0)
	h.node.PathTo(h.peer)
	var supply *Supply
	if s.SRQ {
		supply = newSupply(h.node, &s)
	}
	e := NewEndpoint(h.node, srqPD, &s, supply)
	e.MayFail = true
	// What arrives is nobody's request: each write must be inside what is open.
	e.target.Written = func(qpn uint32, off int, data []byte) {
		if qpn != e.QP.QPN() {
			h.Failf("write by QP %d", qpn)
		}
	}
	h.read = h.node.Mem.Register(srqPD, 4096, verbs.AccessRemoteRead)
	h.read.Written = func(uint32, int, []byte) { h.Failf("write to a region that is read-only") }
	other := h.node.Mem.Register(srqPD+1, 4096, verbs.AccessLocalWrite|allRemote)
	other.Written = func(uint32, int, []byte) { h.Failf("write to another protection domain") }
	dead := h.node.Mem.Register(srqPD, 4096, verbs.AccessLocalWrite|allRemote)
	dead.Invalid, h.dead = true, dead.Key
	dead.Written = func(uint32, int, []byte) { h.Failf("write to an invalidated region") }
	h.Victim = e
	e.expect = nil
	e.anything = true
	e.Dest = []*Endpoint{e}
	e.Up(h.peer, hostileQPN, s.Start[0], s.Start[1], &s)
	h.node.Serve()
	return h
}

// hostileQPN is the number of the peer's queue pair. It is one of an engine: others have no SACK.
const hostileQPN = 0x800063

// hostileOps are all that a queue pair may be sent, some that no one should send.
var hostileOps = func() (ops []rocev2.Opcode) {
	for op := range 256 {
		if rocev2.Opcode(op).Known() {
			ops = append(ops, rocev2.Opcode(op))
		}
	}
	return ops
}()

// Packet draws one packet.
func (h *Hostile) Packet(c Choices) rocev2.Datagram {
	e := h.Victim
	d := rocev2.Datagram{
		Src: h.peer.Addr, Dst: h.node.Addr, DestQP: e.QP.QPN(), SrcQP: hostileQPN, QKey: qKey,
		Opcode: hostileOps[c.Choose("opcode", len(hostileOps))],
	}
	base := [...]rocev2.Opcode{verbs.RC: 0x00, verbs.UC: 0x20, verbs.UD: 0x60}[e.QP.Type()]
	if c.Choose("service", 8) != 7 { // mostly of the right service
		d.Opcode = base | d.Opcode&0x1F
		if !d.Opcode.Known() {
			d.Opcode = base | rocev2.RCSendOnly
		}
	}
	d.PSN = h.psn
	switch c.Choose("PSN", 8) {
	case 5:
		d.PSN = h.psn.Add(c.Choose("ahead", 200))
	case 6:
		d.PSN = h.psn.Add(-c.Choose("behind", 200))
	case 7:
		d.PSN = rocev2.PSN(c.Choose("anywhere", 1<<24))
	}
	d.AckReq, d.Solicited = c.Choose("AckReq", 2) == 1, c.Choose("solicited", 2) == 1
	d.RKey = [...]uint32{e.target.Key, e.target.Key, e.target.Key, h.read.Key, h.read.Key + 1<<8, h.dead, e.pool.Key, 0}[c.Choose("key", 8)]
	d.VA = e.target.Addr
	if r := h.node.Mem.Region(d.RKey); r != nil {
		d.VA = r.Addr
	}
	switch c.Choose("address", 6) {
	case 1:
		d.VA += uint64(c.Choose("offset", targetSize+16))
	case 2:
		d.VA -= uint64(c.Choose("below", 4096))
	case 3:
		d.VA = -uint64(c.Choose("wraps", 4096))
	}
	n := 0
	switch c.Choose("payload", 5) {
	case 0:
		n = h.pmtu
	case 1:
		n = c.Choose("bytes", h.pmtu+1)
	case 2:
		n = c.Choose("bytes", 2*h.pmtu)
	case 3:
		n = h.pmtu * c.Choose("many", 5)
	}
	if !d.Opcode.Info().Payload {
		n = 0
	}
	d.Payload = e.pool.Data[:n]
	d.DMALen = uint32(n)
	switch c.Choose("DMA length", 6) {
	case 1:
		d.DMALen = uint32(h.pmtu * c.Choose("packets", 8))
	case 2:
		d.DMALen = uint32(c.Choose("length", 1<<17))
	case 3:
		d.DMALen = uint32(c.Choose("huge", 1<<16)) << 16
	}
	d.Compare, d.SwapAdd = uint64(c.Choose("compare", 256)), uint64(c.Choose("swap", 256))
	d.Syndrome = rocev2.Syndrome(c.Choose("syndrome", 256))
	d.MSN = uint32(c.Choose("MSN", 256))
	d.SACKLo, d.SACKHi = uint64(c.Choose("SACK", 1<<16)), uint64(c.Choose("SACK", 1<<16))<<48
	if c.Choose("bad Q_Key", 8) == 1 {
		d.QKey++
	}
	return d
}

// Send gives a packet to the victim, perhaps with a pad count that lies.
func (h *Hostile) Send(c Choices, d *rocev2.Datagram) {
	frame, err := d.AppendTo(nil)
	if err != nil {
		h.Failf("packet: %v", err)
		return
	}
	if c.Choose("pad", 10) == 9 {
		p, _ := rocev2.ParseIP(frame)
		p.BTH().SetPadCount(c.Choose("pad count", 4))
		p, err = rocev2.ParseIP(frame)
		if err != nil {
			return // the codec refuses it already
		}
		p.PutICRC()
	}
	h.now += Microsecond
	h.deliver(frame)
	h.Run(h.now) // nothing is to happen yet but what is due
	if h.Victim.QP.State() != verbs.StateErr {
		h.psn = h.Victim.expected()
	}
}

// deliver has a packet arrive at the victim, and requires that the core delivers it to the queue pair: a packet that
// the core dropped would attack nothing.
func (h *Hostile) deliver(frame []byte) {
	before := h.received()
	h.node.arrive(frame)
	if got := h.received() - before; got != 1 {
		h.Failf("the core delivered the packet to a queue pair %d times, want once", got)
	}
}

// received returns how many packets the core of the victim has delivered to queue pairs.
func (h *Hostile) received() uint64 {
	count := h.node.core.Counters()
	for _, c := range count.Packets() {
		if c.Name == "rcvd_pkts" {
			return c.Value
		}
	}
	h.Failf("the core has no counter of received packets")
	return 0
}

// Behave ends the attack: what the victim has open is told no more lies about, and
// a proper request in turn must be executed, unless the attack ended in an error.
func (h *Hostile) Behave() error {
	e := h.Victim
	if h.err != nil || e.QP.State() == verbs.StateErr || e.QP.Type() != verbs.RC {
		return h.err
	}
	h.now += Second // whatever is held for later may be given up
	h.Run(h.now)
	d := rocev2.Datagram{
		Src: h.peer.Addr, Dst: h.node.Addr, DestQP: e.QP.QPN(), AckReq: true,
		Opcode: rocev2.RCFetchAdd, PSN: e.expected(), VA: e.target.Addr + 8, RKey: e.target.Key, SwapAdd: 7,
	}
	before := h.node.Mem.Atomics
	frame, _ := d.AppendTo(nil)
	h.deliver(frame)
	if h.err == nil && h.node.Mem.Atomics != before+1 && e.QP.State() != verbs.StateErr {
		return fmt.Errorf("in %v and expecting PSN %v, the queue pair did not execute a FETCH_ADD", e.QP.State(), d.PSN)
	}
	return h.err
}
