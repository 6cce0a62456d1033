// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// etherLen is the length of an Ethernet header, bytes.
const etherLen = 14

// Port sends frames by one queue of a network interface. All packets to a destination take one port, which keeps
// their order.
type Port interface {
	// Room reports whether there is memory for one more frame.
	Room() bool
	// Frame returns the memory of the next frame, of its interface's MTU and an Ethernet header at least; nil: there
	// is none. The core may leave it unused, and asks for it again then.
	Frame() []byte
	// Push sends the first n bytes of what Frame returned last.
	Push(n int)
}

// Host is what a core asks of the program around it, in the middle of the functions that the program has called.
// It calls no function of the core, except where that is said.
type Host interface {
	// Clock returns the time at this moment, for stamps: that of Begin or later, on the same clock.
	Clock() qp.Time
	// Owns reports whether an address is one of the interfaces of the core. Datagrams to others are dropped.
	Owns(a netip.Addr) bool
	// TakePosts passes waiting work requests to Send, Recv and SRQ.Recv: a packet finds the receives that were
	// posted before it was sent.
	TakePosts()
	// PublishCompletions is called when queue pairs have room for work requests in the place of those that have
	// completed. Applications may see the completions from then on. It may call Core.Overrun.
	PublishCompletions()
	// CQError is called for a completion queue that has lost a completion (FailOverruns).
	CQError(cq qp.CompletionQueue)
}

// RailConfig is one interface of a core.
type RailConfig struct {
	Name    string // name of the interface, for errors
	MTU     int    // longest packet that frames have room for, bytes of IP
	Ports   []Port // ports that can send; without any, all paths must be loopback
	Runtime RuntimeConfig
}

// Config is fixed for the life of a core.
type Config struct {
	Host Host
	// Rails are the interfaces. All but the first are for queue pairs in out-of-order mode only.
	Rails []RailConfig
	// Allow are the prefixes of the hosts whose packets are taken. Empty: all.
	Allow AllowList
	// LoopbackRounds is how often an iteration receives what it has sent to the core itself, if that is little. 0: the
	// next iteration receives it.
	LoopbackRounds int
	// Rand gives the random bits of queue pair numbers. nil: crypto/rand.
	Rand func() uint32
	// Reorder has the packets behind gaps of all queue pairs. nil: a pool of reorderPackets.
	Reorder *qp.ReorderPool
}

// Core is the engine without sockets, threads and clocks. It belongs to one goroutine.
type Core struct {
	host Host
	now  qp.Time // beginning of this iteration
	qps  qpnTable[QP]

	rx        receiver
	tx        transmitter
	dests     destinations
	timers    timers
	outages   outages
	overruns  overruns
	datagrams dest // queue for queue pairs of UD before anything was posted

	ooo         oooState
	hooks       hooks // hooks of an optional feature, nil without one
	mads        madQueue
	distributor *distributor // nil before the first distribution region

	count   Counters
	qpCount qp.Counters // counters of queue pairs whose Config has no Count
	reorder *qp.ReorderPool
}

// reorderPackets is how many packets behind gaps all queue pairs buffer together, of 4.25 KB each and only when
// needed.
const reorderPackets = 4096

// New returns a core without queue pairs.
func New(c Config) *Core {
	e := &Core{host: c.Host, reorder: c.Reorder}
	if e.reorder == nil {
		e.reorder = qp.NewReorderPool(reorderPackets)
	}
	e.qps.Rand = c.Rand
	e.rx.e, e.tx.e, e.dests.e, e.mads.e = e, e, e, e
	e.rx.allow = c.Allow
	e.dests.init(c.Rails)
	e.timers.onTimer = e.expire
	e.rx.loopback.maxFrame, e.rx.loopback.rounds = max(etherLen+c.Rails[0].MTU, 4096+256), c.LoopbackRounds
	return e
}

// Begin starts an iteration, at a time in nanoseconds of a clock that does not go back. What the core does until
// the next one counts as done at this time.
func (e *Core) Begin(now qp.Time) { e.now, e.tx.framesExhausted = now, false }

// Now returns the time of Begin.
func (e *Core) Now() qp.Time { return e.now }

// FramesExhausted reports that something could not be sent in this iteration because a port had no frame.
func (e *Core) FramesExhausted() bool { return e.tx.framesExhausted }

// maxDeferred is for how many iterations timers of queue pairs wait while more has arrived
// than one iteration takes: the ACK that a queue pair waits for may be there. In so many, all
// frames of a socket are received twice.
const maxDeferred = 64

// Run does what there is to do after frames, calls and work requests, within budgets: timers, answers, data. It
// returns how much that was; 0: nothing happens before Deadline, or before something arrives. backlog: more frames
// have arrived than the program has passed to Frame in this iteration.
func (e *Core) Run(backlog bool) (n int) {
	e.timers.advance(e.now, backlog)
	e.dests.timers.Advance(int64(e.now), e.dests.onTimer)
	if len(e.dests.waiting) > 0 {
		e.dests.releaseEntries()
	}
	e.resume()
	e.tx.flushDirty()
	if len(e.mads.queue) > 0 {
		n += e.mads.sendAll()
	}
	n += e.tx.transmit()
	if e.distributor != nil {
		n += e.distributor.run()
	}
	e.tx.flushDirty()
	n += e.rx.shortLoopback()
	if e.hooks != nil {
		e.hooks.onIteration()
	}
	if n == 0 && e.pending() {
		return 1
	}
	return n
}

// pending reports that Run has something to do at once: a destination is in service, or packets to the core itself wait. A
// destination whose port is full does not count.
func (e *Core) pending() bool { return !e.tx.ready.Empty() || e.rx.loopback.count > 0 }

// expire is called for a queue pair whose timer is due, or was when it was set.
func (e *Core) expire(x *QP) {
	if at := x.deadline(); at == 0 || at > e.now {
		e.timers.rearm(x, e.now)
		return
	}
	count := x.q.Config().Count
	before, bytes := count.Timeouts, uint64(0)
	if x.hooked {
		bytes = x.dest.flight.Bytes()
	}
	x.transport.Expire(e.now)
	if x.hooked {
		e.hooks.onTimeout(x, count.Timeouts != before, bytes)
	}
	e.tx.markDirty(x)
}

// Deadline returns when Run or Reports has something to do by itself, or latest if that is earlier. The result may
// have passed.
func (e *Core) Deadline(now, latest qp.Time) qp.Time {
	if e.pending() { // because of replies, or of a call
		return min(now, latest)
	}
	next := latest
	for _, at := range [...]int64{e.timers.next(), e.dests.timers.Next(), int64(e.outages.due())} {
		if at != 0 {
			next = min(next, qp.Time(at))
		}
	}
	for _, d := range e.dests.waiting {
		next = min(next, d.waitsUntil)
	}
	for _, r := range e.dests.rails {
		if len(r.syncQueue) > 0 {
			next = min(next, r.due)
		}
	}
	if len(e.mads.queue) > 0 || len(e.tx.dirty) > 0 { // they wait for a token
		next = min(next, now+answerPatience/16)
	}
	if e.hooks != nil {
		if at := e.hooks.deadline(now); at != 0 {
			next = min(next, qp.Time(at))
		}
	}
	return next
}

// QPs calls yield with each queue pair, in no particular order. yield may remove it.
func (e *Core) QPs(yield func(*QP) bool) { e.qps.All()(yield) }

// Len returns the number of queue pairs.
func (e *Core) Len() int { return e.qps.Len() }

// QPCounters returns the counters of queue pairs that were made without counters of their own.
func (e *Core) QPCounters() *qp.Counters { return &e.qpCount }

// Counters returns the counters of packets.
func (e *Core) Counters() Counters { return e.count }

// OOOCounters returns the counters of queue pairs in out-of-order mode.
func (e *Core) OOOCounters() ooo.Counters { return e.ooo.count }

// receiver takes frames to queue pairs (rx.go).
type receiver struct {
	e        *Core
	allow    AllowList     // allowed senders; empty: all
	loopback loopbackQueue // packets of the core to itself
}

// transmitter decides what is sent next, builds it and passes it to ports (tx.go, tx_build.go, tx_sched.go).
type transmitter struct {
	e               *Core
	dirty           []*QP       // queue pairs that something happened to in this iteration
	ready           fifo[*dest] // destinations in service
	socketFull      fifo[*dest] // destinations in service whose port was full in the last iteration
	framesExhausted bool        // a port had no frame in this iteration

	// Used again and again, so that nothing is allocated.
	out   qp.Outbound
	stamp rocev2.Stamp
}
