// SPDX-License-Identifier: Apache-2.0

package rates

// This file is the experiment of requirement S1.9: one sender, two receivers
// behind different bottlenecks. It measures how full the bottlenecks and how long
// their queues are without and with the product, and what slowing one receiver does
// to the other.
//
//	phase 1  without  both flows, nothing attached
//	phase 2  with     the same, product attached
//	phase 3  slowed   receiver A's bottleneck slowed tenfold, the flows go on
//
// Fill and queues are the switch's own counters; the sender is not asked.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Product is what is tested.
type Product interface {
	// Attach puts the product on eth0 of all hosts; hosts[0] is the sender.
	Attach(hosts []*topo.Host) error

	// Detach takes it away again.
	Detach() error

	// Rows reads the sender's destination table. It is called every 20 ms.
	Rows() ([]IsolationRow, error)
}

// IsolationRow is what the experiment looks at in one entry of the destination table.
type IsolationRow struct {
	Dest         netip.Addr
	TxNS         int64 // S1.4: transmit time
	RxNS         int64 // S1.4: receive time
	QueueingTxNS int64 // queueing delay of the forward path
	RateBPS      uint64
	Case         int  // S1.6 case of the last decision, 0 = none
	Decreased    bool // the last decision has decreased the rate
}

// sendBuffer lets a flow have about as many bytes between itself and the wire as
// rdma_rxe lets a QP have at its usual PMTU of 1024: 64 packets
// (RXE_INFLIGHT_SKBS_PER_QP_HIGH). A sender that hands its whole window to the
// pacer would have the policy wait for that window at every decision.
const sendBuffer = 64 * 2300

// IsolationConfig of the experiment. The zero value is the one of the requirement.
type IsolationConfig struct {
	RateA, RateB uint64        // bottlenecks in bit/s; default 100 and 400 Mbit/s
	SlowBy       uint64        // divisor of A's rate while it is slowed; default 10
	Limit        int           // bytes that each bottleneck's queue holds; default 1 MB
	Burst        time.Duration // bucket of each bottleneck, as time at its rate; default 2 ms
	Window       int           // packets in flight per flow; default 128
	PMTU         int           // default 4096: a quarter of the packets for the same bytes
	Warmup       time.Duration // time of each phase that is not measured; default 2 s
	Measure      time.Duration // measured time of each phase; default 5 s
	IPv6         bool
}

const (
	queueEvery = 5 * time.Millisecond
	rowsEvery  = 4 // queue samples
)

func (c *IsolationConfig) check() error {
	def := func(v *uint64, d uint64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.RateA, 100e6)
	def(&c.RateB, 400e6)
	def(&c.SlowBy, 10)
	if c.Limit == 0 {
		c.Limit = 1 << 20
	}
	if c.Burst == 0 {
		c.Burst = 2 * time.Millisecond
	}
	if c.Window == 0 {
		c.Window = 128
	}
	if c.PMTU == 0 {
		c.PMTU = 4096
	}
	if c.Warmup == 0 {
		c.Warmup = 2 * time.Second
	}
	if c.Measure == 0 {
		c.Measure = 5 * time.Second
	}
	if c.Warmup < 0 || c.Measure < 20*queueEvery {
		return fmt.Errorf("isolation: phases of %v + %v; measure at least %v", c.Warmup, c.Measure, 20*queueEvery)
	}
	return nil
}

// Sample is one reading of both ports and, every few, of the table.
type Sample struct {
	At    time.Duration // time since the experiment began
	Queue [2]topo.QueueStats
	Rows  [2]*IsolationRow // nil when not read, or not in the table
}

// Result is everything that was measured.
type Result struct {
	Config  IsolationConfig
	Phases  []Phase
	Samples []Sample
	Slowed  time.Duration  // time at which A was slowed
	Decided [2]map[int]int // number of table readings that showed an S1.6 case, per destination
	Damaged uint64         // packets with wrong data at the receivers
	// Table readings of each destination that showed a decrease.
	Decreases [2]int
}

type isolationExperiment struct {
	cfg     IsolationConfig
	product Product
	top     *topo.Topology
	src     *load.Endpoint
	dst     [2]*load.Endpoint
	addr    [2]netip.Addr
	start   time.Time
	res     *Result
	reading bool // product attached
}

// RunIsolation runs the experiment. The product is attached for phases 2 and 3 only.
func RunIsolation(ctx context.Context, cfg IsolationConfig, product Product) (_ *Result, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	wide := func(rate uint64) *topo.Bottleneck {
		return &topo.Bottleneck{RateBPS: rate, Limit: cfg.Limit, BurstTime: cfg.Burst}
	}
	top, err := topo.New(topo.Spec{
		MTU: max(1500, cfg.PMTU+200), StaticNeighbours: true,
		Hosts: []topo.HostSpec{{Name: "sender"}, {Name: "a", Bottleneck: wide(cfg.RateA)}, {Name: "b", Bottleneck: wide(cfg.RateB)}},
	})
	if err != nil {
		return nil, err
	}
	x := &isolationExperiment{cfg: cfg, product: product, top: top, res: &Result{Config: cfg}}
	defer func() { err = errors.Join(err, x.close()) }()
	if err := x.open(); err != nil {
		return nil, err
	}
	if err := x.run(ctx); err != nil {
		return nil, err
	}
	for _, ep := range x.dst {
		for _, r := range ep.Received() {
			x.res.Damaged += r.Mismatches + r.Invalid
		}
		x.res.Damaged += ep.Counters().BadICRC
	}
	return x.res, nil
}

func (x *isolationExperiment) open() (err error) {
	address := (*topo.Host).IPv4
	if x.cfg.IPv6 {
		address = (*topo.Host).IPv6
	}
	at := func(i int) (*load.Endpoint, error) {
		h := x.top.Host(i)
		return load.Open(load.Config{Local: address(h), Do: h.Do})
	}
	if x.src, err = at(1); err != nil {
		return err
	}
	for i := range x.dst {
		x.addr[i] = address(x.top.Host(2 + i))
		if x.dst[i], err = at(2 + i); err != nil {
			return err
		}
		x.res.Decided[i] = map[int]int{}
	}
	return nil
}

func (x *isolationExperiment) close() error {
	var errs []error
	for _, ep := range []*load.Endpoint{x.src, x.dst[0], x.dst[1]} {
		if ep != nil {
			errs = append(errs, ep.Close())
		}
	}
	return errors.Join(append(errs, x.top.Close())...)
}

// runIsolation goes through the phases.
func (x *isolationExperiment) run(ctx context.Context) (err error) {
	x.start = time.Now()
	err = x.flows(ctx, func(ctx context.Context) error { return x.phase(ctx, "without") })
	if err != nil {
		return err
	}
	if err := x.product.Attach(x.top.Hosts()); err != nil {
		return fmt.Errorf("isolation: attach: %w", err)
	}
	x.reading = true
	defer func() {
		if e := x.product.Detach(); e != nil {
			err = errors.Join(err, fmt.Errorf("isolation: detach: %w", e))
		}
	}()
	return x.flows(ctx, func(ctx context.Context) error {
		if err := x.phase(ctx, "with"); err != nil {
			return err
		}
		if err := x.top.Host(2).Port().SetRate(x.cfg.RateA / x.cfg.SlowBy); err != nil {
			return err
		}
		x.res.Slowed = time.Since(x.start)
		return x.phase(ctx, "slowed")
	})
}

// flows runs f while the sender sends to both receivers.
func (x *isolationExperiment) flows(ctx context.Context, f func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan error, len(x.addr))
	for _, to := range x.addr {
		go func() {
			_, err := x.src.Send(ctx, load.Flow{
				To: to, Window: x.cfg.Window, PMTU: x.cfg.PMTU, SendBuffer: sendBuffer, GiveUp: patience,
			})
			if err != nil {
				stop(err) // f need not go on
			}
			done <- err
		}()
	}
	err := f(ctx)
	stop(nil)
	for range x.addr {
		err = errors.Join(err, <-done)
	}
	return err
}

// phase warms up and measures.
func (x *isolationExperiment) phase(ctx context.Context, name string) error {
	if _, err := x.sample(ctx, x.cfg.Warmup); err != nil {
		return err
	}
	from := len(x.res.Samples)
	took, err := x.sample(ctx, x.cfg.Measure)
	if err != nil {
		return err
	}
	p := Phase{Name: name, From: x.res.Samples[from].At, To: x.res.Samples[from].At + took}
	p.Late = max(0, 1-float64(len(x.res.Samples)-from)*queueEvery.Seconds()/took.Seconds())
	for i := range p.Dest {
		p.Dest[i] = figures(x.res.Samples[from:], i, x.top.Host(2+i).Port().Bottleneck().RateBPS)
	}
	x.res.Phases = append(x.res.Phases, p)
	return nil
}

// sample reads queues and table for a while, and twice at least: figures are differences.
func (x *isolationExperiment) sample(ctx context.Context, d time.Duration) (time.Duration, error) {
	begin := time.Now()
	tick := time.NewTicker(queueEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		q, err := x.top.Queues()
		if err != nil {
			return 0, err
		}
		s := Sample{At: time.Since(x.start), Queue: [2]topo.QueueStats{q[1], q[2]}}
		if x.reading && n%rowsEvery == 0 {
			if err := x.rows(&s); err != nil {
				return 0, err
			}
		}
		x.res.Samples = append(x.res.Samples, s)
		if took := time.Since(begin); took >= d && n > 0 {
			return took, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("isolation: interrupted: %w", context.Cause(ctx))
		}
	}
}

func (x *isolationExperiment) rows(s *Sample) error {
	rows, err := x.product.Rows()
	if err != nil {
		return fmt.Errorf("isolation: read the table: %w", err)
	}
	for _, r := range rows {
		for i, addr := range x.addr {
			if r.Dest.Unmap() == addr {
				s.Rows[i] = &r
				x.res.Decided[i][r.Case]++
				if r.Decreased {
					x.res.Decreases[i]++
				}
			}
		}
	}
	return nil
}
