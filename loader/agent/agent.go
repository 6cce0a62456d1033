// SPDX-License-Identifier: Apache-2.0

// Package agent is the process behind an attached interface. Internal to this project. It sends
// HELLO to new destinations, evaluates the policy for the active ones, passes the rates to the
// pacer, and writes the heartbeat, without which the data plane stops pacing.
//
// The state of each destination is in the destination table: an agent that is started
// after another one was killed continues with it.
//
//	agent.go               start, the tick, and the end
//	control.go             HELLO, HELLO_ACK and RATE_LIMIT are built and sent; rawsock.go has the sockets
//	sources.go             one HELLO for each source address; internal/discovery decides when
//	echo.go                ECHO for data that nothing acknowledges
//	ratelimit.go           a congested receiver limits the rate of its senders
//	ratelimit_received.go  limits that other receivers have sent
//	follow_iface.go        the name, MTU, MAC address and state of the interface are followed
//	addrs.go               its addresses are followed
//	entries.go, sweep.go   entries of the destination table begin, and are removed when idle
//	engine.go, rdma.go     the NIC that the agent serves, and the rdma device of the kernel
//	watch.go               what others have changed is repaired or reported
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/loop"
	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/agent/internal/discovery"
	"github.com/softroce/softroce-xdp/loader/nodefile"
	"github.com/softroce/softroce-xdp/loader/pacer"
	"github.com/softroce/softroce-xdp/rocev2"
)

// Agent runs one interface.
type Agent struct {
	att   *loader.Attachment
	iface loader.Iface
	cfg   *loader.LiveConfig
	table *loader.AgentCall
	pacer pacer.Pacer
	loop  *loop.Loop
	log   *slog.Logger

	lock      *loader.Lock
	lockAfter uint64 // no check of the lease's file before this, monotonic ns

	sockets *rawSockets
	control control
	peers   *discovery.Peers
	file    nodefile.File
	nodes   *nodefile.Numbers
	sweep   sweeper
	echoes  echoes
	limits  *limits
	own     *loader.OwnAddresses
	sources sources
	receive receiving
	words   *loader.LiveLimits

	admission *discovery.Admission

	watch  watch
	rest   loop.Rest
	engine uint64 // last check for the entries of a killed engine, monotonic ns
	dests  int    // entries in the table that have a number

	rdma        string // RDMA device for which the pacer is ready; "" = none
	rdmaAfter   uint64 // no search for an RDMA device before this, monotonic ns
	clockOffset uint64 // clock of the stamps - monotonic clock, ns
}

// Run adopts the attachment of ifname and runs its agent until ctx ends. Then it returns nil,
// and the data plane stays. If the interface is deleted or moved to another network namespace,
// everything is detached and the error wraps loader.ErrLost. ready is called before the first
// tick. ending is called at the end, before another agent can start.
func Run(ctx context.Context, ifname string, o loader.Options, log *slog.Logger, ready, ending func()) error {
	lock, err := loader.TakeLock(o.RunDir, ifname)
	if err != nil {
		return err
	}
	defer lock.Release()
	if iface, err := loader.FindIface(ifname); err == nil { // else open says what is wrong
		guard, err := loader.TakeGuard(ifname, iface.Index, o)
		if err != nil {
			return err
		}
		defer guard.Release()
	}
	defer ending()
	a, err := open(ifname, o, log)
	if err != nil {
		return err
	}
	defer a.close()
	a.lock = lock
	if err := a.att.SetAgent(os.Getpid()); err != nil {
		log.Warn("status will not know this process", "err", err) // the lock does
	}
	a.expectRDMA(sysRDMA, loader.Monotonic())
	if err := a.prepare(); err != nil {
		return err
	}
	log.Info("agent works", "pacer", a.pacer.Kind(), "xdp", a.att.State.XDPMode, "egress", a.att.State.Egress,
		"rate_bps", a.cfg.LinkRateBps, "destinations", a.dests)
	a.watch.look(a, loader.Monotonic()) // status expects its report
	ready()
	return a.run(ctx)
}

func open(ifname string, o loader.Options, log *slog.Logger) (_ *Agent, err error) {
	a := &Agent{log: log}
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
	if a.table, err = a.att.NewAgentCall(); err != nil {
		return nil, err
	}
	if a.pacer, err = pacer.Adopt(a.iface.Link, a.att.State.Pacer, a.att.State.OwnQdisc); err != nil {
		return nil, err
	}
	if a.sockets, err = openRawSockets(a.iface.Index); err != nil {
		return nil, err
	}
	a.control = control{
		origin: rocev2.Hello{Node: a.cfg.Node, Caps: a.cfg.Caps, LinkMbps: uint32(a.cfg.LinkRateBps / 1e6)},
		secret: a.cfg.Secret, send: a.sendControl, mtu: a.sockets.pathMTU, log: log,
	}
	a.peers, a.admission = discovery.New(rand.Uint64N), discovery.NewAdmission(idleLimit)
	a.clockOffset = a.att.State.Clock.Offset()
	if path := a.att.State.NodeFile; path != "" {
		if a.file, err = nodefile.ReadAttached(path, ifname); err != nil {
			return nil, err
		}
	}
	a.nodes = a.file.Numbers()
	if err = a.openLimits(); err != nil {
		return nil, err
	}
	if err = a.openOwn(); err != nil {
		return nil, err
	}
	a.loop = loop.New(loop.Options{
		Table: a.table, Pacer: a.pacer, Config: a.cfg.Config, Sharer: a.file.Sharer(), Clock: loader.Monotonic, Log: log,
		Hello: a.hello, Evaluated: a.evaluated, Limit: a.limits.of,
	})
	a.loop.ClockOffset = a.clockOffset
	return a, nil
}

func (a *Agent) close() {
	a.watch.close()
	if a.sockets != nil {
		a.sockets.close()
	}
	if a.table != nil {
		_ = a.table.Close()
	}
	if a.own != nil {
		_ = a.own.Close()
	}
	if a.words != nil {
		_ = a.words.Close()
	}
	if a.cfg != nil {
		_ = a.cfg.Close()
	}
	if a.att != nil {
		a.att.Close()
	}
}

// run handles events, changes of the interface and ticks in one goroutine, so that no
// state needs a lock.
func (a *Agent) run(ctx context.Context) error {
	events := make(chan bpf.Event, 256)
	ring, err := ringbuf.NewReader(a.att.Maps.Events)
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go readEvents(ring, events, ended)
	defer ring.Close()

	links, err := watchLink(a.iface.Index)
	if err != nil {
		return err
	}
	defer links.close()
	addrs, err := watchAddrs()
	if err != nil {
		return err
	}
	defer addrs.close()

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
			if next, rested := a.rest.Wake(loader.Monotonic()); rested {
				tick.Reset(next)
			}
		case l, ok := <-links.changes:
			if !ok {
				a.log.Warn("reports of interface changes were lost: the agent subscribes again")
				if err := links.subscribe(); err != nil {
					return err
				}
				continue
			}
			if l == nil {
				if lost := a.att.Lost(); lost != nil {
					a.log.Warn("agent ends", "err", lost)
					return errors.Join(lost, loader.Forget(ctx, a.att))
				}
				continue // it has come back
			}
			a.linkChanged(l)
			a.watch.next = 0
			if next, rested := a.rest.Wake(loader.Monotonic()); rested {
				tick.Reset(next)
			}
		case _, ok := <-addrs.changes:
			if !ok {
				a.log.Warn("reports of changed addresses were lost: the agent subscribes again")
				if err := addrs.subscribe(); err != nil {
					return err
				}
			}
			a.readOwn()
		case <-tick.C:
			next, err := a.tick(loader.Monotonic())
			if err != nil {
				return err
			}
			tick.Reset(next)
		}
	}
}

// tick does the work of one tick. It returns the time until the next one.
func (a *Agent) tick(now uint64) (time.Duration, error) {
	// The cost is CPU time: on a busy machine, elapsed time includes that of other
	// processes. The thread is locked for the tick only: a goroutine that is locked to its
	// thread while it waits has to be woken by another thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := loader.Clock(unix.CLOCK_THREAD_CPUTIME_ID)
	atomic.StoreUint64(&a.cfg.HeartbeatNs, now)
	a.followClock(a.att.State.Clock.Offset(), now)
	// Not without an engine: one that is opened needs a HELLO with its capabilities soon.
	reported := a.table.Rest(a.hasEngine() && a.rest.Due(now))
	a.limits.refresh()
	n, err := a.loop.Evaluate(now)
	if err != nil {
		return 0, err
	}
	if n > 0 {
		a.table.Rest(false) // the next tick is soon: it needs no event
	}
	a.loop.EvenShare(now) // `policy set` may have changed it, and destinations become idle
	a.loop.ShareOut(now)
	a.receive.step(now)
	a.watchEngine(now)
	a.sendHellos(now)
	a.expectRDMA(sysRDMA, now)
	a.sweep.some(a, now)
	a.keepLock(now)
	cost := time.Duration(loader.Clock(unix.CLOCK_THREAD_CPUTIME_ID) - start)
	a.sendEchoes(now) // which have a budget of their own
	a.watch.look(a, now)
	period := a.rest.Period(loop.TickPeriod(cost, n, a.hasEngine()), now, n == 0, reported)
	return a.loop.AdvancePauses(loader.Monotonic(), period), nil
}

// evaluated records the snapshot of a destination in an evaluation.
func (a *Agent) evaluated(key bpf.DestKey, d *bpf.DestRegs, now uint64) {
	a.echoes.note(key, d, now)
	a.receive.note(key, d, now)
}

// openLimits prepares the limits of what this host sends and receives.
func (a *Agent) openLimits() (err error) {
	if a.words, err = a.att.LiveLimits(); err != nil {
		return err
	}
	a.limits = newLimits(a.att.Maps.RateLimits, a.words.LimitWords)
	a.receive = receiving{state: &a.words.Now, maps: noArrivals{}, send: a.rateLimit, advertised: map[bpf.DestKey]*advertised{}}
	if !a.att.HasLimits() {
		return nil // attached by an earlier version
	}
	maps := &arrivalMaps{a.att.Maps.ArrivalLimits, a.att.Maps.ArrivalCounts, a.words.LimitWords}
	maps.clear()
	a.receive.maps = maps
	if !a.file.Prioritized() {
		return nil
	}
	a.receive.divider = newDivider(&a.file)
	a.receive.on = func() bool { return a.priority().Mode == priority.ModeOn }
	a.receive.link = func() uint64 { return a.priority().Limit(a.cfg.LinkRateBps) }
	a.receive.floor = func() uint64 { return a.cfg.Policy.MinRateBps }
	return nil
}

func (a *Agent) priority() *priority.Params {
	prio, _ := bpf.PriorityAs[priority.Params, priority.State](a.cfg.Config)
	return prio
}

// sendHellos sends the HELLOs that are due.
func (a *Agent) sendHellos(now uint64) {
	ask, lost := a.peers.Due(now, a.used)
	for _, peer := range ask {
		a.hello(peer)
	}
	for _, p := range a.sources.due(now) {
		a.control.hello(p.own, p.peer)
	}
	for _, peer := range lost {
		a.unaware(peer)
	}
}

// readEvents reads events until ring is closed; once ended is closed, nobody takes them.
func readEvents(ring *ringbuf.Reader, out chan<- bpf.Event, ended <-chan struct{}) {
	defer close(out)
	var rec ringbuf.Record
	for {
		if err := ring.ReadInto(&rec); err != nil {
			return
		}
		e, ok := bpf.EventOf(rec.RawSample)
		if !ok {
			continue
		}
		select {
		case out <- e:
		case <-ended:
			return
		}
	}
}

// handle handles an event of the data plane.
func (a *Agent) handle(e bpf.Event) {
	peer, now := bpf.AddrOf(e.Peer), loader.Monotonic()
	switch e.Type {
	case bpf.EventNewDest:
		a.handleNewDest(e.Peer)
	case bpf.EventPeerAware:
		a.sources.answered(e.Peer, e.Own)
		changed := a.peers.OnAck(e.Peer, uint16(e.Caps), now)
		if changed {
			a.log.Info("peer understands stamps", "peer", peer, "node", e.Node, "caps", e.Caps)
		}
		// The second HELLO has the token of the peer, without which a peer that has no entry
		// of this host ignores it.
		if changed || !a.measured(peer) {
			a.peers.Repeat(e.Peer, now)
		}
	case bpf.EventHello:
		if e.Nonce != 0 {
			a.control.helloAck(a.ownAddr(e.Own), &e)
		}
		if a.peers.OnHello(e.Peer, uint16(e.Caps), e.Proven&bpf.HelloProven != 0, now) {
			a.control.hello(a.ownAddr(e.Own), e.Peer)
		}
	case bpf.EventAsk:
		own := a.ownAddr(e.Own)
		if !own.IsValid() {
			own = a.firstSource(e.Peer)
		}
		a.control.ask(own, e.Peer)
	case bpf.EventNewSource:
		a.newSource(e.Peer, e.Own, now)
	case bpf.EventActive: // ends the agent's rest, as every event does
	case bpf.EventAckUnknown:
		if a.admission.Admit(peer, now) && a.addEntry(peer, e.Own, e.Token, uint16(e.Caps)) {
			a.dests++
		}
	}
}
