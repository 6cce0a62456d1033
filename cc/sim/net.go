// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Net is a network and the run on it.
type Net struct {
	// OnDone is called when a flow's last byte has arrived.
	OnDone func(*Flow)
	// Source gives the flows of a workload one by one, in order of their start;
	// false = no more. Flows that Add was called for come in addition.
	Source func() (FlowSpec, bool)

	// Counters of the run so far.

	PacketHops uint64 // packets that crossed a link
	Drops      [numDrops]uint64
	DataDrops  [numDrops]uint64 // drops of Drops that were data
	Pauses     uint64           // PFC pause frames
	DoneFlows  int

	cfg    Config
	topo   Topology
	scheme Scheme
	needs  Needs
	wheel  *wheel
	rand   *rand.Rand

	ports      []port
	queues     []queue // queues by port and queue, if ports have more than their own two
	numQueues  int
	selective  bool // the transport
	switches   []swtch
	ingress    []ingress // nil without PFC
	alphaQ8    int64
	pfcAlphaQ8 int64
	resumeGap  int64
	hosts      []host
	routing    routing

	pkts     []packet
	meta     []packetMeta
	ints     [][maxLinks]Hop
	freePkt  int32
	livePkts int
	prefetch prefetcher

	flows  []*Flow
	pacers []*Pacer
	pairs  map[[2]int32]*pair

	newFlows  slab[Flow]
	newPacers slab[Pacer]
	newPairs  slab[pair]
	newSels   slab[selective]

	freePacers []int32
	calls      []func()
	nextSpec   *FlowSpec // next flow of Source

	fullWire, ackWire int
	ack               Ack
	data              Data
	msg               Message
	reply             Reply
}

// New builds a network.
func New(cfg Config, t Topology, scheme Scheme) (*Net, error) {
	needs := scheme.Needs()
	cfg, err := cfg.withDefaults(&needs)
	if err != nil {
		return nil, err
	}
	if err := t.validate(); err != nil {
		return nil, err
	}
	n := &Net{cfg: cfg, topo: t, scheme: scheme, needs: needs, freePkt: noIndex, pairs: map[[2]int32]*pair{}}
	n.rand = rand.New(rand.NewPCG(cfg.Seed, 0x50f7_70ce))
	n.fullWire = cfg.PayloadBytes + n.headers()
	n.ackWire = roceHeaders + aethBytes + preambleGap + needs.AckHeaderBytes
	n.wheel = newWheel(n.bucketWidth(), n.bucketBits())
	n.selective = cfg.Transport == Selective
	n.numQueues = dataQueue + cfg.Classes
	n.alphaQ8, n.pfcAlphaQ8 = int64(cfg.Alpha*256), int64(cfg.PFCAlpha*256)
	n.resumeGap = 2 * int64(n.fullWire)
	n.makePorts()
	if err := n.makeSwitches(); err != nil {
		return nil, err
	}
	n.routing.build(n)
	n.makeHosts()
	n.growPool(poolPerPort * len(n.ports))
	return n, nil
}

// headers is what a data packet costs in addition to its payload, bytes.
func (n *Net) headers() int { return roceHeaders + preambleGap + n.needs.HeaderBytes }

// bucketWidth aims at a few events a bucket when all ports are busy.
func (n *Net) bucketWidth() tick {
	perMs := 0.0
	for _, w := range n.topo.Wires {
		perMs += 2 * 2 * float64(w.Bps) / 1000 / 8 / float64(n.fullWire)
	}
	return tick(16e9 / perMs)
}

// bucketBits makes the bottom ring longer than the time of a few packets, so that
// most events are set in it.
func (n *Net) bucketBits() uint {
	b := uint(10)
	for 1<<b < 32*len(n.topo.Wires) && b < level0Max {
		b++
	}
	return b
}

func (n *Net) makePorts() {
	n.ports = hugeSlice[port](2 * len(n.topo.Wires))
	if n.numQueues > len(port{}.queues) {
		n.queues = hugeSlice[queue](len(n.ports) * n.numQueues)
	}
	configs := make([]portConfig, len(n.ports))
	for i := range n.ports {
		w := n.topo.Wires[i/2]
		from := w.A
		if i&1 == 1 {
			from = w.B
		}
		p := &n.ports[i]
		*p = port{node: int32(from), last: noIndex, host: from < n.topo.Hosts, portConfig: &configs[i]}
		p.setLink(w.Link)
		if n.needs.ECN != nil {
			p.ecn = n.needs.ECN(w.Bps)
			p.noMark = p.ecn.KminBytes
		}
		if c := n.needs.CreditQueue; c != nil {
			share := c.Share
			if share == 0 {
				share = CreditWireBytes / float64(CreditWireBytes+n.fullWire)
			}
			p.hasCredits = true
			p.freeSlot = n.wheel.newSlot(evFree, int32(i))
			p.credits = &creditQueue{limit: c.LimitPackets, share: share}
		}
		for _, weight := range n.cfg.Weights {
			p.weighted = true
			p.drr = append(p.drr, drrState{weight: int64(weight)})
		}
	}
}

func (p *port) setLink(l Link) {
	p.link, p.delay, p.noisy = l, tick(l.Delay)*nanosecond, l.Loss > 0 || l.Jitter > 0
	p.setRate(l.Bps)
}

func (n *Net) makeSwitches() error {
	n.switches = make([]swtch, n.topo.Switches)
	for i := range n.switches {
		n.switches[i].shared = n.cfg.BufferBytes
	}
	if n.cfg.PFC != On {
		return nil
	}
	n.ingress = hugeSlice[ingress](len(n.ports) * n.cfg.Classes)
	for i := range n.ports {
		p := &n.ports[i]
		if p.host {
			continue
		}
		// What can come after a pause was due: it waits for a packet, travels, the
		// peer finishes a packet, and the wire empties.
		far := int64(p.link.Delay + p.link.Jitter)
		in := 2*far*int64(p.bps/1e6)/8000 + 3*int64(n.fullWire) + int64(n.cfg.Classes)*pauseWireBytes
		for c := range n.cfg.Classes {
			n.ingress[i*n.cfg.Classes+c].headroom = in
			n.switches[int(p.node)-n.topo.Hosts].shared -= in
		}
	}
	for i := range n.switches {
		if s := n.switches[i].shared; s < int64(4*n.fullWire) {
			return fmt.Errorf("switch %d needs %d bytes of headroom for PFC: a buffer of %d bytes leaves nothing to share, so give it more, or fewer classes",
				i, n.cfg.BufferBytes-s, n.cfg.BufferBytes)
		}
	}
	return nil
}

// Run simulates until a time from the start.
func (n *Net) Run(until time.Duration) {
	if n.Source != nil && n.nextSpec == nil {
		n.pullSource()
	}
	limit := tick(until) * nanosecond
	large := len(n.ports) > smallPorts
	for {
		if large && len(n.wheel.heap) == 0 && n.wheel.advance(limit) && n.prefetch.due(n.wheel.pos) {
			n.lookAhead()
		}
		kind, owner, ok := n.wheel.pop(limit)
		if !ok {
			n.wheel.now = max(n.wheel.now, limit)
			return
		}
		n.reserve()
		n.handle(kind, owner)
	}
}

// RunAll simulates until all flows are done, at most until a time. It returns
// whether they are.
func (n *Net) RunAll(limit time.Duration) bool {
	const step = 100 * time.Microsecond
	for t := n.Now() + step; ; t += step {
		n.Run(min(t, limit))
		if n.nextSpec == nil && n.DoneFlows == len(n.flows) {
			return true
		}
		if t >= limit {
			return false
		}
	}
}

// Now is the simulated time since the start.
func (n *Net) Now() time.Duration { return time.Duration(n.wheel.now.ns()) }

func (n *Net) handle(kind evKind, owner int32) {
	switch kind {
	case evArrive:
		n.arrive(owner)
	case evFree:
		n.ports[owner].waiting = false
		n.kick(owner)
	case evPace:
		n.pacers[owner].paceDue()
	case evTimer:
		n.pacers[owner].timerDue()
	case evRTO:
		n.flows[owner].rtoDue()
	case evRcvTimer:
		f := n.flows[owner]
		n.hosts[f.Dst].receiver.Expire(n.wheel.now.ns(), f)
	case evAckDelay:
		n.flows[owner].ackDelayDue()
	case evHostTime:
		n.hosts[owner].receiver.Expire(n.wheel.now.ns(), nil)
	case evTurn:
		n.hosts[owner].turned()
	case evStart:
		n.start(n.flows[owner])
	case evCall:
		n.calls[owner]()
	}
}

// At calls a function at a time from the start, e.g. to change a link.
func (n *Net) At(at time.Duration, call func()) {
	n.calls = append(n.calls, call)
	n.wheel.set(n.wheel.newSlot(evCall, int32(len(n.calls)-1)), tick(at)*nanosecond)
}

// Every calls a function at a time and then again and again.
func (n *Net) Every(first, period time.Duration, call func()) {
	at := tick(first) * nanosecond
	id := n.wheel.newSlot(evCall, int32(len(n.calls)))
	n.calls = append(n.calls, func() {
		at += tick(period) * nanosecond
		n.wheel.set(id, at)
		call()
	})
	n.wheel.set(id, at)
}

// port finds the port of a node towards a neighbour.
func (n *Net) port(from, to int) (int32, error) {
	if from >= 0 && from < len(n.routing.links) {
		for _, l := range n.routing.links[from] {
			if int(l.to) == to {
				return l.port, nil
			}
		}
	}
	return 0, fmt.Errorf("no wire from node %d to node %d", from, to)
}

// SetLink changes one direction of a wire, from the next packet on. Paths and
// their base RTTs stay as they were.
func (n *Net) SetLink(from, to int, l Link) error {
	pi, err := n.port(from, to)
	if err != nil {
		return err
	}
	if err := l.validate(); err != nil {
		return err
	}
	p := &n.ports[pi]
	p.setLink(l)
	p.noisy = true // a shorter delay must not let packets overtake
	return nil
}
