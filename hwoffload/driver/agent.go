// SPDX-License-Identifier: Apache-2.0

package driver

// This file evaluates the four-case policy for the destinations of a card (S1.6), as loader/agent does for an
// interface. Both drive cc/loop.

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/loop"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// AgentTable is what the agent needs of a Table.
type AgentTable interface {
	// Now returns the time of the card's clock in ns.
	Now() (uint64, error)
	// Params reads the parameters of the policy.
	Params() (bpf.PolicyParams, error)
	// Refresh reads the nodes again, which another process may have changed.
	Refresh() error
}

// AgentPort is the part of the table behind one port of a card.
type AgentPort interface {
	loop.Table
	// Link returns the speed of the port in bit/s and its MTU in bytes of IP.
	Link() (bps uint64, mtu uint32, err error)
	// Dests returns the number of the nodes behind the port.
	Dests() int
	// Fresh returns the nodes whose entries no agent had yet.
	Fresh() (map[bpf.DestKey]uint32, error)
}

// AgentOptions are what RunAgent works with.
type AgentOptions struct {
	Ports []AgentPort
	// Sharer returns a policy with the priorities of the nodes (S4.5), or nil if they have none. Each port
	// gets one of its own, since destinations behind different ports share no link. nil: no priorities.
	Sharer func() *priority.Sharer
	Log    *slog.Logger
	Ready  func() // called before the first tick
	Beat   func() // called after each tick
}

// Agent evaluates the policy for the destinations of a card. The card itself measures and
// paces. Each port has a policy loop of its own, because its destinations share its link.
type Agent struct {
	card  AgentTable
	log   *slog.Logger
	ports []cardPort
	valid bpf.PolicyParams // the parameters that were checked last
}

type cardPort struct {
	AgentPort
	cfg  *bpf.Config
	loop *loop.Loop
}

// NewAgent returns the agent of a card. Times are of the clock of the card.
func NewAgent(c AgentTable, o AgentOptions) (*Agent, error) {
	a := &Agent{card: c, log: o.Log}
	for _, p := range o.Ports {
		bps, mtu, err := p.Link()
		if err != nil {
			return nil, err
		}
		// The rate limiter of a card delays a packet at the head of its queue. So whether
		// data waits is known by win_paced, as with the pacer police.
		x := cardPort{AgentPort: p, cfg: &bpf.Config{Pacer: bpf.PacerPolice, Mtu: mtu, LinkRateBps: bps}}
		var sharer *priority.Sharer
		if o.Sharer != nil {
			sharer = o.Sharer()
		}
		x.loop = loop.New(loop.Options{
			Table: p, Config: x.cfg, Sharer: sharer, Log: o.Log,
			Clock: func() uint64 { now, _ := c.Now(); return now }, // a failure is reported by the next call of the table
		})
		a.ports = append(a.ports, x)
	}
	return a, a.Follow()
}

// Follow begins with nodes that were added, and forgets those that were removed.
func (a *Agent) Follow() error {
	if err := a.card.Refresh(); err != nil {
		return err
	}
	if err := a.params(); err != nil {
		return err
	}
	for _, p := range a.ports {
		p.loop.EvenShareOf(p.Dests())
		fresh, err := p.Fresh()
		if err != nil {
			return err
		}
		for key, node := range fresh {
			a.log.Info("new destination", "peer", bpf.AddrOf(key), "node", node)
			if err := p.loop.Begin(key, node); err != nil {
				return err
			}
		}
	}
	return nil
}

// params reads the parameters of the policy for all ports.
func (a *Agent) params() error {
	params, err := a.card.Params()
	if err != nil {
		return err
	}
	if params != a.valid {
		if err := bpf.ParamsAs[fourcase.Params](&params).Validate(); err != nil {
			return fmt.Errorf("block fourcase of the card: %w", err)
		}
		a.valid = params
	}
	for _, p := range a.ports {
		p.cfg.Policy = params
	}
	return nil
}

// Evaluate makes one evaluation for each port. It returns the number of destinations.
func (a *Agent) Evaluate() (total int, err error) {
	now, err := a.card.Now()
	if err != nil {
		return 0, err
	}
	if err := a.params(); err != nil {
		return 0, err
	}
	for _, p := range a.ports {
		dests := p.Dests()
		if dests == 0 {
			continue
		}
		n, err := p.loop.Evaluate(now)
		if err != nil {
			return 0, err
		}
		total += n
		p.loop.EvenShareOf(dests)
		p.loop.ShareOut(now)
	}
	return total, nil
}

// followPeriod is the time within which nodes that were added or removed are noticed.
const followPeriod = time.Second

// RunAgent runs the agent of a card until ctx ends, and then returns nil, or until the card fails.
// The card keeps the last rates.
func RunAgent(ctx context.Context, c AgentTable, o AgentOptions) error {
	a, err := NewAgent(c, o)
	if err != nil {
		return err
	}
	o.Ready()
	followed := time.Now()
	for timer := time.NewTimer(0); ; {
		select {
		case <-ctx.Done():
			a.log.Info("agent stops; the card keeps the last rates")
			return nil
		case <-timer.C:
		}
		if now := time.Now(); now.Sub(followed) >= followPeriod {
			followed = now
			if err := a.Follow(); err != nil {
				return err
			}
		}
		next, err := a.tick()
		if err != nil {
			return err
		}
		o.Beat()
		timer.Reset(next)
	}
}

// tick makes an evaluation, and returns the time until the next one.
func (a *Agent) tick() (time.Duration, error) {
	runtime.LockOSThread() // the cost is CPU time of this thread
	defer runtime.UnlockOSThread()
	start := threadTime()
	n, err := a.Evaluate()
	return loop.TickPeriod(threadTime()-start, n, true), err
}

// threadTime returns the CPU time of this thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}
