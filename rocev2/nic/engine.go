// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/driver"
	"github.com/softroce/softroce-xdp/rocev2/nic/qpn"
	"github.com/softroce/softroce-xdp/rocev2/nic/sched"
	"github.com/softroce/softroce-xdp/rocev2/nic/wheel"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

// engine owns all queue pairs. It belongs to one thread at a time (loop_owner.go). What
// other goroutines want comes by posts (post.go) and calls.
type engine struct {
	dev       *Device
	dataplane Dataplane
	clock     clock
	now       qp.Time // when this iteration began
	config    RuntimeConfig

	socks    []*sock
	senders  []*sock // the sockets that can send
	kick     kicker
	loopback loopbackQueue

	qps               qpn.Table[QP]
	dests             map[netip.Addr]*dest
	datagrams         dest              // where queue pairs of UD are queued before anything was posted
	ready             sched.List[*dest] // in service
	socketFull        sched.List[*dest] // in service, whose socket was full in this iteration
	dirty             []*QP             // that something happened to in this iteration
	ackWait           ackWaitFIFO
	qpTimers          wheel.Wheel[*QP]
	destTimers        wheel.Wheel[*dest]
	txFramesExhausted bool // the kernel has all transmit frames of a socket
	pendingKick       bool // it left some of them, and there is no second thread
	rxBacklog         bool // more may have arrived than this iteration has taken
	timersDeferred    int  // iterations since timers of queue pairs have fired
	overruns          []*CQ
	updatedCQs        []*CQ // with completions that were not shown

	posts     posts
	calls     calls
	syncQueue []*dest // to be reported
	sync      syncer
	lastWork  qp.Time // when there was last something to do

	// Used again and again, so that nothing is allocated.
	out     qp.Outbound
	stamp   rocev2.Stamp
	scratch []byte // for packets of several frames
	onTimer func(*QP)
	onDest  func(*dest)

	hooks hooks // of an optional feature, nil without one

	count   engineCounters
	qpCount qp.Counters
	held    *qp.HoldPool

	failed error       // why the loop is to end
	stop   atomic.Bool // Close has been called

	driver driver.Driver // whose runMu protects all that is not atomic or has a lock of its own
}

// sock is one AF_XDP socket with what the engine keeps of it.
type sock struct {
	xsk    *xsk.Socket
	batch  *xsk.Batch
	pushed int // packets since the last submit
}

// newEngine puts the engine together; start has it run.
func newEngine(d *Device) (*engine, error) {
	e := &engine{
		dev: d, dataplane: d.dataplane, clock: newClock(), kick: newKicker(),
		dests: map[netip.Addr]*dest{}, held: qp.NewHoldPool(heldPackets),
	}
	index, _, err := d.link()
	if err != nil {
		return nil, err
	}
	e.posts.init()
	e.config = d.dataplane.RuntimeConfig()
	e.loopback.maxFrame = max(maxFrame(d.mtu), 4096+256)
	e.scratch = make([]byte, max(maxFrame(d.mtu)+64, 16<<10))
	e.datagrams.report.Addr = netip.Addr{}
	e.sync.init()
	e.onTimer, e.onDest = e.expire, e.unblock
	var fds []int
	for _, s := range d.socks {
		e.socks = append(e.socks, &sock{xsk: s, batch: s.NewBatch(rxBatch)})
		fds = append(fds, s.FD())
	}
	if err := e.driver.Init(loop{e}, fds...); err != nil {
		return nil, err
	}
	e.senders = e.socks[:len(d.socks.Senders(d.opts.Interface, index))]
	e.datagrams.sock = e.socks[0]
	return e, nil
}

// heldPackets is how many packets behind gaps all queue pairs buffer together, of
// 4.25 KB each and only when needed.
const heldPackets = 4096

func (e *engine) start() {
	e.dev.started.Store(e)
	go e.kick.run(e.socks)
	go e.sync.run(e)
	go e.driver.Run()
}

// ending reports that the engine's thread is to finish.
func (e *engine) ending() bool { return e.failed != nil || e.stop.Load() }

// finish ends everything: work requests complete as flushed, calls return.
func (e *engine) finish() {
	why := e.failed
	if why == nil {
		why = ErrClosed
	}
	e.dev.err.CompareAndSwap(nil, &why)
	e.posts.mu.Lock()
	e.posts.closed = true
	e.posts.mu.Unlock()
	for e.posts.any.Load() {
		e.takePosts()
	}
	for x := range e.qps.All() {
		_ = x.q.Modify(qp.Attr{State: qp.Err}, qp.MaskState) // refused in RESET: nothing to flush
		x.publish()
		release(e.unroute(x)) // no other thread would: this one ends
	}
	e.publishCompletions()
	e.calls.mu.Lock()
	e.calls.closed = true
	list := e.calls.waiting
	e.calls.mu.Unlock()
	for _, f := range list {
		f()
	}
	e.kick.stop.Store(true)
	close(e.kick.wake)
	close(e.sync.wake)
	<-e.kick.ended
	<-e.sync.ended
	e.dev.ended(why)
}
