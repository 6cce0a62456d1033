// SPDX-License-Identifier: Apache-2.0

package card

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// dataPath executes WQEs (S2.2 to S2.4). It translates registers, doorbells and rings into calls of an engine.Core, the
// core of the software NIC, and what comes out of that into registers and rings. A WQE takes this way:
//
//	doorbell      fetch.go        the driver's write to block doorbells
//	fetchSend     fetch.go        the WQE is read from the DDR and posted
//	work          frames.go       the engine sends packets, with data from the DDR
//	deliver       frames.go       the peer: measure, and the engine, which writes to the DDR
//	work          frames.go       its ACK
//	deliver       frames.go       the ACK completes the work request
//	Complete      queues.go       an entry of the completion queue in the DDR
//
// Writes to registers that have an effect are handled in the call that writes (written, and
// command of the model). All methods need the model's lock.
type dataPath struct {
	m   *Model
	in  inside
	ddr backend

	qps     map[uint32]*queuePair
	srqs    map[uint32]*sharedQueue
	cqs     map[uint32]*completionQueue
	groups  map[uint32]*group
	secrets map[uint32]*secrets
	count   qp.Counters

	mem     memoryTable
	net     network
	control control

	fetching, spare []*queuePair // queue pairs with WQEs that were not read; spare is memory for the next list

	overruns bool // a completion queue has an overrun that was not handled

	// Used in one call only.
	wr      verbs.SendWR
	recv    verbs.RecvWR
	scratch [maxEntry]byte
}

func newDataPath(m *Model) *dataPath {
	d := &dataPath{
		m: m, in: inside{m}, ddr: backend{&m.ddr},
		qps: map[uint32]*queuePair{}, srqs: map[uint32]*sharedQueue{}, cqs: map[uint32]*completionQueue{},
		groups: map[uint32]*group{}, secrets: map[uint32]*secrets{},
	}
	d.mem = memoryTable{in: d.in, ddr: d.ddr, regions: map[uint32]*region{}}
	d.net = network{m: m, in: d.in, entries: map[uint32]*entry{}, routes: map[*route]struct{}{}}
	d.control.d = d
	for i := range d.net.ports {
		d.net.ports[i] = outPort{&d.net, i}
	}
	d.net.core = engine.New(engine.Config{
		Host:  host{d},
		Rails: []engine.RailConfig{{Name: "card", MTU: FrameLen - etherLen, Runtime: engine.RuntimeConfig{Paced: true}}},
	})
	return d
}

// host is what the engine asks of the card.
type host struct{ d *dataPath }

// Clock implements engine.Host.
func (h host) Clock() qp.Time { return h.d.net.core.Now() }

// Owns implements engine.Host. A queue pair of UD has every address of the port.
func (host) Owns(netip.Addr) bool { return true }

// TakePosts implements engine.Host. Doorbells take them.
func (host) TakePosts() {}

// PublishCompletions implements engine.Host. Completion queues show each entry.
func (host) PublishCompletions() {}

// CQError implements engine.Host. The card finds overruns by itself (failOverruns).
func (host) CQError(qp.CompletionQueue) {}

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
		d.net.nodes, d.net.routesStale = nil, true
	case addr >= regs.PortsBase && addr < regs.PortsBase+regs.PortsCount*regs.PortsStride:
		d.net.routesStale = true
	case addr == regs.PrecreditBase+regs.PrecreditControlOffset:
		d.beginWrite()
		d.control.set(regs.PrecreditControl(was), regs.PrecreditControl(now))
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
			d.beginWrite()
			d.modify(i, regs.QpModify(v))
		}
	case addr >= regs.DoorbellsBase && addr < regs.DoorbellsBase+regs.DoorbellsCount*regs.DoorbellsStride:
		d.beginWrite()
		d.doorbell(addr, v)
	default:
		return false
	}
	d.failOverruns()
	signal(d.m.wake)
	return true
}

// failOverruns moves the queue pairs of completion queues with an overrun to ERR (IBTA 10.8.4). It returns false if there is
// no such queue.
func (d *dataPath) failOverruns() bool {
	if !d.overruns {
		return false
	}
	d.overruns = false
	for _, x := range d.qps {
		if (x.send.cq.overrun || x.recv.cq.overrun) && x.q.State() != verbs.StateErr {
			x.q.Flush()
		}
	}
	return true
}

// rateChanged has the engine look at the destination table again.
func (d *dataPath) rateChanged() {
	d.net.entriesStale = true
	signal(d.m.wake)
}

// refresh brings a register up to date whose value the engine has.
func (d *dataPath) refresh(addr uint64) {
	switch {
	case d.control.endpoint != nil && addr >= regs.PrecreditBase && addr < regs.PrecreditBase+regs.PrecreditStride:
		d.control.show()
	case addr >= regs.QpBase && addr < regs.QpBase+regs.QpCount*regs.QpStride && (addr-regs.QpBase)%regs.QpStride >= regs.QpEncryptedOffset:
		if x := d.qps[uint32((addr-regs.QpBase)/regs.QpStride)]; x != nil {
			d.showCrypt(x)
		}
	case addr >= regs.DistributionBase && addr < regs.DistributionBase+regs.DistributionCount*regs.DistributionStride:
		d.showGroup(d.groups[uint32((addr-regs.DistributionBase)/regs.DistributionStride)])
	}
}
