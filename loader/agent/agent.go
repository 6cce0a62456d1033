// SPDX-License-Identifier: Apache-2.0

// Package agent is the process behind an attached interface. It sends HELLO to new
// destinations, evaluates the policy for the active ones, passes the rates to the pacer,
// and writes the heartbeat, without which the data plane stops pacing.
//
// The state of each destination is in the destination table: an agent that is started
// after another one was killed continues with it.
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
	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/agent/discovery"
	"github.com/softroce/softroce-xdp/loader/nodefile"
	"github.com/softroce/softroce-xdp/loader/pacer"
	"github.com/softroce/softroce-xdp/rocev2"
)

// Agent runs one interface.
type Agent struct {
	att   *loader.Attachment
	iface loader.Iface
	cfg   *loader.LiveConfig
	x     *loader.AgentCall
	pacer pacer.Pacer
	log   *slog.Logger

	sockets    *rawSockets
	control    control
	peers      *discovery.Peers
	file       nodefile.File
	nodes      *nodefile.Numbers
	sweep      sweeper
	reconciler reconciler
	pauses     baselinePauses
	echoes     echoes

	admission *discovery.Admission

	paceBlocked    paceBlocked
	senders        senders
	steps          []step // of the slots that are evaluated; kept for their memory
	recentlyActive recentlyActive
	sharer         *priority.Sharer

	engine uint64 // last check for the entries of a killed engine, monotonic ns
	dests  int    // entries in the table that have a number

	rdma        string // RDMA device for which the pacer is ready; "" = none
	rdmaAfter   uint64 // no search for an RDMA device before this, monotonic ns
	classAfter  uint64 // no new pacer class before this, monotonic ns
	clockOffset uint64 // clock of the stamps - monotonic clock, ns
}

// Run adopts the attachment of ifname and runs its agent until ctx ends or the interface
// is deleted. Then it returns nil, and the data plane stays. ready is called before the
// first tick.
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
	a.expectRDMA(sysRDMA, loader.Monotonic())
	if err := a.prepare(); err != nil {
		return err
	}
	log.Info("agent works", "pacer", a.pacer.Kind(), "xdp", a.att.State.XDPMode, "egress", a.att.State.Egress,
		"rate_bps", a.cfg.LinkRateBps, "destinations", a.dests)
	ready()
	return a.loop(ctx)
}

func open(ifname string, o loader.Options, log *slog.Logger) (_ *Agent, err error) {
	a := &Agent{log: log}
	a.reconciler.last = map[bpf.DestKey]uint64{}
	a.pauses.all = map[bpf.DestKey]*baselinePause{}
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
	if a.x, err = a.att.NewAgentCall(); err != nil {
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
		secret: a.cfg.Secret, send: a.sockets.send, log: log,
	}
	a.peers, a.admission = discovery.New(rand.Uint64N), discovery.NewAdmission(idleLimit)
	a.clockOffset = a.att.State.Clock.Offset()
	if path := a.att.State.NodeFile; path != "" {
		if a.file, err = nodefile.ReadAttached(path, ifname); err != nil {
			return nil, err
		}
	}
	a.nodes = a.file.Numbers()
	a.sharer = newSharer(&a.file)
	return a, nil
}

func (a *Agent) close() {
	if a.sockets != nil {
		a.sockets.close()
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

// The period of heartbeat and evaluation. It is short for a few destinations, and grows
// with the CPU time of a tick and with the number of destinations, so that the agent's
// share of a CPU stays small. The shortest period is interval_ns of the policy, and
// applies if the interface has an engine: more frequent decisions cost more and improve
// little. Traffic of the kernel stack does not profit from it (docs/four-case.md).
const (
	minTick   = 5 * time.Millisecond
	idleTick  = 10 * time.Millisecond // no engine is active, or ticks take much CPU time
	maxTick   = 250 * time.Millisecond
	perDest   = 200 * time.Microsecond // shortest period per destination evaluated
	costShare = 120                    // ticks take at most 1/costShare of a CPU

	// freeCost is the CPU time of a tick that costShare does not count: a few destinations
	// are evaluated every tick, although each change of an HTB class is a request to the
	// kernel.
	freeCost = 240 * time.Microsecond

	// quickShare stands for costShare where ticks are less than idleTick apart.
	quickShare = 30
)

// tickPeriod returns the time until the next tick, after a tick that evaluated n destinations
// and took cost of CPU time. engine: the interface has an engine.
func tickPeriod(cost time.Duration, n int, engine bool) time.Duration {
	period := idleTick
	if n > 0 && engine {
		period = min(max(minTick, cost*quickShare), idleTick)
	}
	return min(max(period, (cost-freeCost)*costShare, time.Duration(n)*perDest), maxTick)
}

// loop handles events, changes of the interface and ticks in one goroutine, so that no
// state needs a lock.
func (a *Agent) loop(ctx context.Context) error {
	events := make(chan bpf.Event, 256)
	ring, err := ringbuf.NewReader(a.att.Maps.Events)
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	go readEvents(ring, events)
	defer ring.Close()

	links, err := watchLink(a.iface.Index)
	if err != nil {
		return err
	}
	defer links.close()

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
		case l, ok := <-links.changes:
			if !ok {
				a.log.Warn("reports of interface changes were lost: the agent subscribes again")
				if err := links.subscribe(); err != nil {
					return err
				}
				continue
			}
			if l == nil {
				a.log.Warn("the interface was deleted")
				return loader.Forget(ctx, a.att)
			}
			a.linkChanged(l)
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
	n, err := a.evaluate(now)
	if err != nil {
		return 0, err
	}
	waited, err := a.evaluatePaceBlocked(now)
	if err != nil {
		return 0, err
	}
	a.evenShare() // `policy set` may have changed it
	a.shareOut(now)
	a.watchEngine(now)
	a.sendHellos(now)
	a.expectRDMA(sysRDMA, now)
	a.sweep.some(a, now)
	cost := time.Duration(loader.Clock(unix.CLOCK_THREAD_CPUTIME_ID) - start)
	a.sendEchoes(now) // which have a budget of their own
	return a.advancePauses(loader.Monotonic(), tickPeriod(cost, n+waited, a.hasEngine())), nil
}

// sendHellos sends the HELLOs that are due.
func (a *Agent) sendHellos(now uint64) {
	ask, lost := a.peers.Due(now, a.used)
	for _, peer := range ask {
		a.control.hello(peer)
	}
	for _, peer := range lost {
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

// handle handles an event of the data plane.
func (a *Agent) handle(e bpf.Event) {
	peer, now := bpf.AddrOf(e.Peer), loader.Monotonic()
	switch e.Type {
	case bpf.EventNewDest:
		a.handleNewDest(e.Peer)
	case bpf.EventPeerAware:
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
			a.control.helloAck(&e)
		}
		if a.peers.OnHello(e.Peer, uint16(e.Caps), e.Proven != 0, now) {
			a.control.hello(e.Peer)
		}
	case bpf.EventAckUnknown:
		if a.admission.Admit(peer, now) && a.addEntry(peer, e.Token, uint16(e.Caps)) {
			a.dests++
			a.evenShare()
		}
	}
}
