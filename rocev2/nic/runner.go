// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"sync"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/loop"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

// runner runs the core of a device (package engine): it has the core's sockets, threads and clock, and the queues by
// which other goroutines reach it. It belongs to one thread at a time (loop_owner.go). What
// other goroutines want comes by posts (post.go) and calls.
type runner struct {
	dev   *Device
	core  *engine.Core
	clock clock

	rails       []*rail // the device's own interface, and the others (rail.go)
	pendingKick bool    // transmission left some packets, and there is no second thread
	rxBacklog   bool    // more may have arrived than this iteration has taken
	updatedCQs  []*CQ   // completion queues with completions that were not shown

	posts    posts
	calls    calls
	lastWork qp.Time // last time that there was something to do

	scratch []byte     // buffer for packets of several frames
	feeder  Feeder     // source of work from other processes, nil without one
	counts  countsList // counters of users that have some of their own

	failed error       // reason why the loop is to end
	stop   atomic.Bool // Close has been called

	driver loop.Driver // driver whose runMu protects all that is not atomic or has a lock of its own
}

// rail is one interface with what the runner keeps of it (rail.go).
type rail struct {
	index     int // index of engine.Config.Rails
	dataplane Dataplane
	socks     []*sock
	kick      kicker
	sync      syncer
}

// sock is one AF_XDP socket with what the runner keeps of it (tx_kick.go).
type sock struct {
	xsk    *xsk.Socket
	batch  *xsk.Batch
	pushed int // packets since the last submit
}

// posts holds work requests for the core (post.go). Applications append copies to a batch
// under a lock that is never held for long; the runner exchanges the batch for an empty one.
// All queue pairs share it: an idle one costs nothing, and the core need not look at each of
// them.
type posts struct {
	any atomic.Bool // something was posted

	mu     sync.Mutex
	batch  *postBatch
	closed bool

	spare *postBatch // the runner's
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
	wake chan struct{}
	done atomic.Bool // the batch is back
	out  bool        // the batch is with the goroutine

	reports  []DestSync
	reported int // reports at the start of the batch that succeeded
	err      error
	ended    chan struct{}
}

// newRunner puts a device's runner and core together; start has it run.
func newRunner(d *Device) (*runner, error) {
	e := &runner{dev: d, clock: newClock(), feeder: d.opts.Feeder}
	e.posts.init()
	conf := engine.Config{Host: host{e}, Allow: d.allow, LoopbackRounds: engine.LoopbackRounds}
	index := 0
	if d.routes != nil {
		var err error
		if index, _, err = d.link(); err != nil {
			return nil, err
		}
	}
	conf.Rails = append(conf.Rails, e.addRail(iface{name: d.opts.Interface, index: index, mtu: d.mtu, dataplane: d.dataplane, socks: d.socks}))
	for _, p := range d.otherRails {
		conf.Rails = append(conf.Rails, e.addRail(*p))
	}
	longest := 0
	for _, r := range conf.Rails {
		longest = max(longest, maxFrame(r.MTU))
	}
	e.scratch = make([]byte, max(longest+64, 16<<10))
	e.core = engine.New(conf)
	e.core.Begin(e.clock.now())
	var fds []int
	if e.feeder != nil {
		fds = append(fds, e.feeder.FD())
	}
	for _, r := range e.rails {
		for _, s := range r.socks {
			fds = append(fds, s.xsk.FD())
		}
	}
	if err := e.driver.Init(loopRunner{e}, fds...); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *runner) start() {
	e.dev.started.Store(e)
	for _, r := range e.rails {
		go r.kick.run(r.socks)
		go r.sync.run(e, r.dataplane)
	}
	go e.driver.Run()
}
