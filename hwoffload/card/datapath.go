// SPDX-License-Identifier: Apache-2.0

package card

import (
	"math"
	"net/netip"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// dataPath executes WQEs (S2.2 to S2.4). Transport and memory checks are those of the software
// NIC: packages qp and mr. A WQE takes this way:
//
//	doorbell      fetch.go        the driver's write to block doorbells
//	fetchSend     fetch.go        the WQE is read from the DDR and posted
//	next          frames.go       packets, with data from the DDR
//	deliver       frames.go       the peer: parse, check the key, write to the DDR
//	next          frames.go       its ACK
//	deliver       frames.go       the ACK completes the work request
//	Complete      queues.go       an entry of the completion queue in the DDR
//
// Writes to registers that have an effect are handled in the call that writes (written, and
// command of the model). All methods need the model's lock.
type dataPath struct {
	m    *Model
	in   inside
	ddr  backend
	keys *mr.Table // nil until something is registered

	regions map[uint32]*region
	qps     map[uint32]*queuePair
	srqs    map[uint32]*sharedQueue
	cqs     map[uint32]*completionQueue
	groups  map[uint32]*group
	secrets map[uint32]*secrets
	count   qp.Counters

	nodes map[netip.Addr]int // numbers by address; nil: to be read again

	ready    []*queuePair // queue pairs that may have packets to send, next first
	pacing   pacing
	credits  *credits // nil: no pre-credit
	overruns bool     // a completion queue has an overrun that was not handled

	creditEpoch uint32 // number of the next account, if credits was set before
	creditsUsed bool

	forwarding, spare []*distribution // distributions that have something to post; spare is memory for the next list

	// Used in one call only.
	out     qp.Outbound
	stamp   rocev2.Stamp
	wr      verbs.SendWR
	recv    verbs.RecvWR
	scratch [maxEntry]byte
}

func newDataPath(m *Model) *dataPath {
	return &dataPath{
		m: m, in: inside{m}, ddr: backend{&m.ddr},
		regions: map[uint32]*region{}, qps: map[uint32]*queuePair{}, srqs: map[uint32]*sharedQueue{}, cqs: map[uint32]*completionQueue{},
		groups: map[uint32]*group{}, secrets: map[uint32]*secrets{}, pacing: pacing{dests: map[uint32]*pacedDest{}},
	}
}

// table returns the table of regions, which is made when first asked for: it has a slot for
// each of the upper 16 bits of a key.
func (d *dataPath) table() *mr.Table {
	if d.keys == nil {
		t, err := mr.New(mr.Config{ChosenKeys: true})
		if err != nil {
			panic(err) // the default size is possible
		}
		d.keys = t
	}
	return d.keys
}

func (d *dataPath) memory() mem.Memory { return memory{d.table(), d} }

// written is called when the driver has changed a word of a register.
func (d *dataPath) written(addr uint64, was, now uint32) {
	switch {
	case addr >= regs.MrBase && addr < regs.MrBase+regs.MrCount*regs.MrStride && (addr-regs.MrBase)%regs.MrStride == regs.MrControlOffset:
		d.setRegion(uint32(addr-regs.MrBase)/regs.MrStride, regs.MrControl(was), regs.MrControl(now))
	case addr >= regs.CqBase && addr < regs.CqBase+regs.CqCount*regs.CqStride && (addr-regs.CqBase)%regs.CqStride == regs.CqControlOffset:
		d.setCQ(uint32(addr-regs.CqBase)/regs.CqStride, regs.CqControl(was), regs.CqControl(now))
	case addr >= regs.DistributionBase && addr < regs.DistributionBase+regs.DistributionCount*regs.DistributionStride &&
		(addr-regs.DistributionBase)%regs.DistributionStride == regs.DistributionControlOffset:
		d.setGroup(uint32(addr-regs.DistributionBase)/regs.DistributionStride, regs.DistributionControl(was), regs.DistributionControl(now))
	case addr >= regs.NodesBase && addr < regs.NodesBase+regs.NodesStride:
		d.nodes = nil
	case addr == regs.PrecreditBase+regs.PrecreditControlOffset:
		d.setCredits(regs.PrecreditControl(was), regs.PrecreditControl(now))
	case addr >= regs.DestBase && addr < regs.DestBase+regs.DestCount*regs.DestStride:
		d.rateChanged()
	}
}

// command executes a command of the blocks qp and doorbells, and reports whether it was one.
func (d *dataPath) command(addr uint64, v uint32) bool {
	switch {
	case addr >= regs.QpBase && addr < regs.QpBase+regs.QpCount*regs.QpStride:
		i, offset := uint32(addr-regs.QpBase)/regs.QpStride, (addr-regs.QpBase)%regs.QpStride
		if d.writeSecret(i, offset, v) {
			return true
		}
		if offset == regs.QpModifyOffset {
			d.modify(i, regs.QpModify(v))
		}
	case addr >= regs.DoorbellsBase && addr < regs.DoorbellsBase+regs.DoorbellsCount*regs.DoorbellsStride:
		d.doorbell(addr, v)
	default:
		return false
	}
	d.failOverruns()
	signal(d.m.wake)
	return true
}

// touchState shows the state of a queue pair if it has changed.
func (d *dataPath) touchState(x *queuePair) {
	if s := x.q.State(); s != x.shown && d.qps[x.num] == x {
		x.shown = s
		d.showState(x.num, s, false)
	}
}

// failOverruns moves the queue pairs of completion queues with an overrun to ERR (IBTA 10.8.4).
func (d *dataPath) failOverruns() {
	if !d.overruns {
		return
	}
	d.overruns = false
	for _, x := range d.qps {
		if (x.send.cq.overrun || x.recv.cq.overrun) && x.q.State() != verbs.StateErr {
			_ = x.q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState)
			d.event(x.num, verbs.EventQPFatal)
			d.touch(x)
		}
	}
}

// expire handles the timers that have expired at now.
func (d *dataPath) expire(now qp.Time) {
	for _, x := range d.qps {
		if at := x.q.Deadline(); at != 0 && at <= now {
			before := d.count.Timeouts
			x.q.Expire(now)
			if x.credit != nil {
				d.credits.onTimeout(x, d.count.Timeouts != before)
			}
			d.touch(x)
		}
	}
	d.failOverruns()
}

// deadline returns when expire has something to do, or a packet that waits for its destination's
// rate may leave, or 0.
func (d *dataPath) deadline() qp.Time {
	first := qp.Time(math.MaxInt64)
	if d.pacing.due != 0 {
		first = d.pacing.due
	}
	if d.credits != nil {
		first = min(first, d.credits.deadline())
	}
	for _, x := range d.qps {
		if at := x.q.Deadline(); at != 0 {
			first = min(first, at)
		}
	}
	if first == math.MaxInt64 {
		return 0
	}
	return first
}

// port is what packets need of an element of block ports.
type port struct {
	enable, loopback bool
	mac              [6]byte
	mtu              uint32
}

func (d *dataPath) port(i int) port {
	e := regs.PortsOf(d.in, i)
	c := e.Control()
	return port{enable: c.Enable(), loopback: c.Loopback(), mac: regs.MACOf(e.Mac().Address()), mtu: e.Mtu().Bytes()}
}

// portOf returns the port that leads to a peer: that of its node (S1.8), or the one that the address
// names. It returns false if the node does not exist.
func (d *dataPath) portOf(a *address) (int, bool) {
	if a.node == 0 {
		return int(a.port), true
	}
	if a.node > regs.NodesNodeCount {
		return 0, false
	}
	n := regs.NodesOf(d.in).Node(int(a.node) - 1)
	return int(n.Port()), n.Valid()
}

// matchPKey is IBTA 10.9.3: the same partition, and at least one full member.
func matchPKey(a, b uint16) bool {
	const full = 0x8000
	return (a^b)&^full == 0 && (a|b)&full != 0 && a&^full != 0
}

// accepts reports whether a packet may be for a queue pair: partition, and the addresses of the
// connection (IBTA 9.6.1.1, A17.4.3). A queue pair of UD has none: it has every address of the port.
func (d *dataPath) accepts(x *queuePair, p *rocev2.Packet) bool {
	h := p.BTH()
	if h.Version() != 0 {
		return false
	}
	if !matchPKey(h.PKey(), x.pkey) {
		if x.crypt != nil {
			d.countCrypt(x, regs.QpUnencryptedOffset)
		}
		return false
	}
	return x.q.Type() == verbs.UD || x.path.addressesAreValid && p.Src() == x.path.dst && p.Dst() == x.path.src
}
