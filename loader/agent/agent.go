// SPDX-License-Identifier: Apache-2.0

// Package agent is the process behind an attached interface. It makes itself
// known to new destinations (HELLO), evaluates the policy for the active ones,
// turns rates over to the pacer, and keeps the heartbeat without which the data
// plane stops pacing.
//
// All that it knows of a destination is in the destination table: an agent that
// is killed and started again goes on where the last one stopped.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/pacer"
	"github.com/softroce/softroce-xdp/rocev2"
)

// Agent runs one interface.
type Agent struct {
	att   *loader.Attachment
	iface loader.Iface
	cfg   *loader.LiveConfig
	x     *loader.Exchange
	pacer pacer.Pacer
	log   *slog.Logger

	hello   *greeter
	nodes   *nodes
	sweep   sweeper
	resyncs resyncs
	drains  drains
	echoes  echoes

	newcomers newcomers

	waiting  waiters
	senders  senders
	busy     busy
	priority *prioritizer // nil: the node file gives no priorities

	engine uint64 // when we last looked for an engine
	dests  int    // entries in the table, as far as we have heard

	rdma        string // the RDMA device on the interface, as far as we have seen
	rdmaSeen    uint64 // when we looked, monotonic ns
	classAfter  uint64 // no new pacer class before this, monotonic ns
	clockOffset uint64 // clock of the stamps - monotonic clock, ns
}

// Run adopts the attachment of ifname and works until ctx ends or the interface
// is deleted; then it returns nil and the data plane stays. ready is called once
// it works.
func Run(ctx context.Context, ifname string, o loader.Options, log *slog.Logger, ready func()) error {
	lock, err := loader.TakeLock(o.RunDir, ifname)
	if err != nil {
		return err
	}
	defer lock.Release()
	a, err := open(ifname, o, log)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.att.SetAgent(os.Getpid()); err != nil {
		log.Warn("status will not know this process", "err", err) // the lock does
	}
	a.expectRDMA(loader.Monotonic())
	if err := a.prepare(); err != nil {
		return err
	}
	log.Info("agent works", "pacer", a.pacer.Name(), "xdp", a.att.State.XDPMode, "egress", a.att.State.Egress,
		"rate_bps", a.cfg.LinkRateBps, "destinations", a.dests)
	ready()
	return a.loop(ctx)
}

func open(ifname string, o loader.Options, log *slog.Logger) (_ *Agent, err error) {
	a := &Agent{log: log}
	a.resyncs.last = map[bpf.DestKey]uint64{}
	a.drains.all = map[bpf.DestKey]*drain{}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.att, err = loader.OpenHere(ifname, o); err != nil {
		return nil, err
	}
	if a.iface, err = loader.FindIface(ifname); err != nil {
		return nil, err
	}
	if a.cfg, err = a.att.LiveConfig(); err != nil {
		return nil, err
	}
	if a.x, err = a.att.NewExchange(); err != nil {
		return nil, err
	}
	if a.pacer, err = pacer.Adopt(a.iface.Link, a.att.State.Pacer, a.att.State.OwnQdisc); err != nil {
		return nil, err
	}
	if a.hello, err = newGreeter(a.iface, log); err != nil {
		return nil, err
	}
	a.hello.used, a.hello.secret = a.used, a.cfg.Secret
	a.hello.origin = rocev2.Hello{Node: a.cfg.Node, Caps: a.cfg.Caps, LinkMbps: uint32(a.cfg.LinkRateBps / 1e6)}
	if a.att.State.Clock == "tai" {
		a.clockOffset = loader.Clock(unix.CLOCK_TAI) - loader.Monotonic()
	}
	if a.nodes, err = readNodes(a.att.State.NodeFile); err != nil {
		return nil, err
	}
	a.priority = newPrioritizer(a.nodes)
	return a, nil
}

func (a *Agent) close() {
	if a.hello != nil {
		a.hello.close()
	}
	if a.x != nil {
		_ = a.x.Close()
	}
	if a.cfg != nil {
		_ = a.cfg.Close()
	}
	if a.att != nil {
		a.att.Close()
	}
}

// Heartbeat period and the time between two evaluations. It is short for a few
// destinations and grows with what a turn costs and with how many it evaluates,
// so that the agent's share of a CPU stays small however many are active. The shortest
// is the policy's interval_ns, for an engine: to decide more often brings little and costs
// the more. What the host's stack sends does no better with it (docs/four-case.md).
const (
	minTick   = 5 * time.Millisecond
	idleTick  = 10 * time.Millisecond // no engine is active, or turns are dear
	maxTick   = 250 * time.Millisecond
	perDest   = 200 * time.Microsecond // one evaluation in so long
	costShare = 120                    // the turns take at most one part in so many of a CPU

	// freeCost is what a turn may cost before its share counts: a few destinations
	// are judged every tick, though each change of an htb class is a request to
	// the kernel.
	freeCost = 240 * time.Microsecond

	// quickShare is the same for turns that are less than idleTick apart.
	quickShare = 30
)

// pause is the time from a turn that evaluated n destinations, and took busy of
// CPU time, to the next; engine says whether there is one on the interface.
func pause(busy time.Duration, n int, engine bool) time.Duration {
	tick := idleTick
	if n > 0 && engine {
		tick = min(max(minTick, busy*quickShare), idleTick)
	}
	return min(max(tick, (busy-freeCost)*costShare, time.Duration(n)*perDest), maxTick)
}

// loop is the agent's only thread of work. Events, evaluation and housekeeping
// take turns in it; nothing needs a lock.
func (a *Agent) loop(ctx context.Context) error {
	events := make(chan bpf.Event, 256)
	ring, err := ringbuf.NewReader(a.att.Maps.Events)
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	go readEvents(ring, events)
	defer ring.Close()

	links, stop, err := watchLink(a.iface.Index)
	if err != nil {
		return err
	}
	defer stop()

	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			a.log.Info("agent stops; the data plane stays")
			return nil
		case e, ok := <-events:
			if !ok {
				return errors.New("the events ring was closed")
			}
			a.handle(e)
		case l := <-links:
			if l == nil {
				a.log.Warn("the interface was deleted")
				return loader.Forget(ctx, a.att)
			}
			a.linkChanged(l)
		case <-tick.C:
			next, err := a.turn(loader.Monotonic())
			if err != nil {
				return err
			}
			tick.Reset(next)
		}
	}
}

// turn is what is done every tick. It returns the time to the next.
func (a *Agent) turn(now uint64) (time.Duration, error) {
	// The cost is CPU time: on a busy machine, how long it took says more about the
	// others. The thread is held no longer than that: a goroutine that keeps its
	// thread while it waits has it woken by another one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := loader.Clock(unix.CLOCK_THREAD_CPUTIME_ID)
	atomic.StoreUint64(&a.cfg.HeartbeatNs, now)
	n, err := a.evaluate(now)
	if err != nil {
		return 0, err
	}
	waited, err := a.evaluateWaiting(now)
	if err != nil {
		return 0, err
	}
	a.evenShare() // `policy set` may have changed it
	a.shareOut(now)
	a.watchEngine(now)
	a.greet(now)
	a.expectRDMA(now)
	a.sweep.some(a, now)
	busy := time.Duration(loader.Clock(unix.CLOCK_THREAD_CPUTIME_ID) - start)
	a.sendEchoes(now) // which have a budget of their own
	return a.drainStep(loader.Monotonic(), pause(busy, n+waited, a.hasEngine())), nil
}

// greet sends the HELLOs that are due.
func (a *Agent) greet(now uint64) {
	for _, peer := range a.hello.send(now) {
		a.unaware(peer)
	}
}

func readEvents(ring *ringbuf.Reader, out chan<- bpf.Event) {
	defer close(out)
	var rec ringbuf.Record
	for {
		if err := ring.ReadInto(&rec); err != nil {
			return
		}
		if e, ok := bpf.EventOf(rec.RawSample); ok {
			out <- e
		}
	}
}

// handle answers what the data plane reports.
func (a *Agent) handle(e bpf.Event) {
	peer, now := bpf.AddrOf(e.Peer), loader.Monotonic()
	switch e.Type {
	case bpf.EventNewDest:
		a.welcome(e)
	case bpf.EventPeerAware:
		news := a.hello.answered(e.Peer, uint16(e.Caps), now)
		if news {
			a.log.Info("peer understands stamps", "peer", peer, "node", e.Node, "caps", e.Caps)
		}
		// The second HELLO has the peer's token: where we have no entry yet, nobody
		// believes one without.
		if news || !a.measured(peer) {
			a.hello.again(e.Peer, now)
		}
	case bpf.EventHello:
		if e.Nonce != 0 {
			a.hello.answer(&e)
		}
		a.hello.prompt(e.Peer, uint16(e.Caps), e.Proven != 0, now)
	case bpf.EventAckUnknown:
		if a.newcomers.admit(peer, now) && a.addEntry(peer, e.Token, uint16(e.Caps)) {
			a.dests++
			a.evenShare()
		}
	}
}
