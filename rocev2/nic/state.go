// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/cmservice"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/loop"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/qpn"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/sched"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

// The state of the engine, in one place. The files named behind each type have what is done
// with it. What applications hold is in objects.go, pre-credit's state in precredit_state.go.

// etherLen is the length of an Ethernet header, bytes.
const etherLen = 14

// engine owns all queue pairs. It belongs to one thread at a time (loop_owner.go). What
// other goroutines want comes by posts (post.go) and calls.
type engine struct {
	dev   *Device
	clock clock
	now   qp.Time // beginning of this iteration

	rail               // rail of the device's own interface
	otherRails []*rail // rails of the other interfaces (rail.go)

	loopback loopbackQueue
	allow    allowList // allowed senders of received packets; empty: all

	qps               qpn.Table[QP]
	datagrams         dest              // queue for queue pairs of UD before anything was posted
	ready             sched.List[*dest] // destinations in service
	socketFull        sched.List[*dest] // destinations in service whose socket was full in this iteration
	dirty             []*QP             // queue pairs that something happened to in this iteration
	outages           outages
	ackWait           ackWaitFIFO
	qpTimers          sched.Wheel[*QP]
	destTimers        sched.Wheel[*dest]
	txFramesExhausted bool // the kernel has all transmit frames of a socket
	pendingKick       bool // transmission left some of them, and there is no second thread
	rxBacklog         bool // more may have arrived than this iteration has taken
	timersDeferred    int  // iterations since timers of queue pairs have fired
	overruns          []*CQ
	overrunAt         int   // the slot of qps at which failOverruns goes on
	updatedCQs        []*CQ // completion queues with completions that were not shown

	posts    posts
	calls    calls
	lastWork qp.Time // last time that there was something to do

	// Used again and again, so that nothing is allocated.
	out     qp.Outbound
	stamp   rocev2.Stamp
	ooo     oooState
	scratch []byte // buffer for packets of several frames
	onTimer func(*QP)
	onDest  func(*dest)

	hooks       hooks // hooks of an optional feature, nil without one
	mads        madQueue
	feeder      Feeder       // source of work from other processes, nil without one
	distributor *distributor // nil before the first distribution region

	count   engineCounters
	qpCount qp.Counters // counters of queue pairs without Counts
	counts  countsList
	reorder *qp.ReorderPool

	failed error       // reason why the loop is to end
	stop   atomic.Bool // Close has been called

	driver loop.Driver // driver whose runMu protects all that is not atomic or has a lock of its own
}

// markDirty has flushDirty serve a queue pair in this iteration.
func (e *engine) markDirty(x *QP) {
	if !x.dirty {
		x.dirty = true
		e.dirty = append(e.dirty, x)
	}
}

// rail is one interface with what the engine keeps of it (rail.go).
type rail struct {
	dataplane Dataplane
	config    RuntimeConfig
	socks     []*sock
	senders   []*sock // the sockets that can send
	kick      kicker
	dests     map[netip.Addr]*dest
	syncQueue []*dest // destinations to be reported
	sync      syncer
}

// sock is one AF_XDP socket with what the engine keeps of it (tx_kick.go).
type sock struct {
	xsk    *xsk.Socket
	batch  *xsk.Batch
	pushed int // packets since the last submit
}

// dest is one destination: its rate, its stamps, and which queue pairs have data for
// it. The queue pairs and address handles that lead there share it. It belongs to
// the engine's thread (dest.go).
type dest struct {
	addr netip.Addr
	rail uint8 // 0: that of the device's own interface
	sock *sock // one socket a destination: its packets keep their order
	refs int

	drr    sched.Queue[*egress] // egresses of queue pairs that may have data
	queued bool                 // the destination is in engine.ready or socketFull, or being served
	link   sched.Link[*dest]
	idle   uint32 // QPN of the last queue pair that left drr with work requests in its queue, or 0

	// Flight of all queue pairs together, and the queue of those that are blocked on it.
	flight  qp.Flight
	resumes bool // queue pairs of the destination are to continue, see outages
	windows windows
	reorder *qp.ReorderPool // share of the engine's pool, nil until a queue pair needs it

	// The pacer, and the wait for it.
	pacer       sched.Bucket
	paceBlocked qp.Time // beginning of the time that data waits for the pacer, 0 = none does
	timer       sched.Timer[*dest]

	largeAt qp.Time // send time of the last packet with Options.LargeDSCP

	// Capabilities of the peer, and its latest stamp: T1 and when that arrived.
	stamps, sack   bool
	ooo            bool // out-of-order mode
	offersCredit   bool // pre-credit
	tokens         tokens
	peerT1, peerT2 uint64
	ce             bool // the latest packet had CE, and no echo of it was sent

	credit *creditPeer // pre-credit's, nil unless queue pairs use that

	guard      guard
	waitsUntil qp.Time // packets wait for the first token until then (guard.go)

	probe        probe
	report       DestSync
	answers      bool // nothing was sent but answers of the communication manager (answers.go)
	syncQueued   bool // the destination is in rail.syncQueue
	initialSyncs int8 // reports still to be made although nothing was sent
}

// windows limit what queue pairs have in flight to a destination, in bytes of frames (qp.Flight);
// 0 = no limit. The least that is set holds. The rate says how fast what
// fits may leave (tx_window.go).
type windows struct {
	policy uint64 // window of the policy at its rate, from the destination table
	ramp   uint64 // window of a start, until the policy has measured the path
}

// probe measures the round trip to peers that do not stamp, on one packet at a time
// (rtt_probe.go).
type probe struct {
	qp   *QP
	psn  rocev2.PSN
	sent qp.Time // 0 = none outstanding
}

// posts holds work requests for the engine (post.go). Applications append copies to a batch
// under a lock that is never held for long; the engine exchanges the batch for an empty one.
// All queue pairs share it: an idle one costs nothing, and the engine need not look at each of
// them.
type posts struct {
	any atomic.Bool // something was posted

	mu     sync.Mutex
	batch  *postBatch
	closed bool

	spare *postBatch // the engine's
}

// postBatch holds work requests with copies of what they point to.
type postBatch struct {
	list []post
	sges []verbs.SGE
	data []byte
}

// post is one work request of a batch.
type post struct {
	qp   *QP
	srq  *SRQ
	recv bool
	wr   verbs.SendWR // work request; of a receive only ID

	sge, sges  int // place and number in the batch's sges
	byte, size int // bytes of the post, and of inline data
}

// calls is the queue of functions that other goroutines have the owner of the loop run
// (calls.go).
type calls struct {
	mu      sync.Mutex
	waiting []func()
	any     atomic.Bool
	closed  bool
}

// ackWaitSlots is how many fit; more go to the wheel.
const ackWaitSlots = 1024

// ackWaitFIFO is a ring of slots, which are numbered without end (timer_ackwait.go).
type ackWaitFIFO struct {
	slots      [ackWaitSlots]ackWaitSlot
	head, tail uint32
}

// ackWaitSlot is a queue pair that waits for an ACK until a time.
type ackWaitSlot struct {
	qp    *QP // nil: it was removed
	until qp.Time
}

// loopbackLimit is how many packets may wait; their memory is allocated when first needed.
const loopbackLimit = 128

// loopbackQueue is a ring of packets that the engine sends to itself (loopback.go).
type loopbackQueue struct {
	slots       [loopbackLimit][]byte
	lens        [loopbackLimit]int
	head, count int
	maxFrame    int
	rounds      int // rounds of shortLoopback
}

// madQueue has queue pair 1: the messages of the communication manager (mad.go).
type madQueue struct {
	egress egress             // egress of queue pair 1, without a queue pair: each message has an address handle
	svc    *cmservice.Service // nil: there is none
	queue  []madOut           // messages to be sent
	psn    rocev2.PSN
}

// madOut is a message to be sent.
type madOut struct {
	to *AH
	m  mad.Header
}

// kicker is the thread that makes the kernel transmit (tx_kick.go).
type kicker struct {
	wake  chan struct{}
	busy  atomic.Bool // the kicker checks the sockets again before it sleeps
	gone  atomic.Bool // the interface is gone
	stop  atomic.Bool // the kicker is to end; frames that the kernel does not take now are left
	down  atomic.Bool // the link is down: it is busy, but nothing leaves
	ended chan struct{}
	alone bool // the machine has one processor: a second thread would only cost
}

// syncer is the goroutine that reports to the destination table (dataplane_sync.go).
type syncer struct {
	due  qp.Time // time of the next report
	wake chan struct{}
	done atomic.Bool // the batch is back
	out  bool        // the batch is with the goroutine

	dests    []*dest
	reports  []DestSync
	reported int // reports at the start of the batch that succeeded
	err      error
	ended    chan struct{}
}

// engineCounters are what the engine counts in addition to the queue pairs' own (counters.go).
type engineCounters struct {
	rxPackets, rxMalformed, rxTooLong, rxBadICRC uint64
	rxUnknownQPN, rxBadPKey, rxWrongPeer         uint64
	rxNotAllowed                                 uint64
	txPackets, txStamped, txTooBig, txNoPath     uint64
	txNoRoom, syncErrors, rxOtherAddress         uint64
	rxMADs, txMADs, rxBadMAD, madsDropped        uint64
	unproven                                     [unprovenKinds]uint64
	questions, silent                            uint64
	crypt                                        cryptCounters
}
