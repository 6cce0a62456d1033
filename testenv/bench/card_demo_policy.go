// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/hwoffload/vectors"
)

const nodes = `nodes:
  - {number: 1, addresses: [10.0.0.1]}
  - {number: 2, addresses: [10.0.0.2]}
  - {number: 3, addresses: [10.0.0.3]}
`

const (
	token = 41 // of the peers' stamps
	tick  = 10 * time.Millisecond
	phase = 3 * time.Second
)

// showPolicy has `softroce-card attach` set the rates of a card whose RTL runs in Verilator. The RTL has no
// data path: the traffic is that of vectors.Path, and its feedback enters the RTL as packets.
func showPolicy(ctx context.Context, p *cardProduct) (err error) {
	step("The RTL of the card in Verilator. Data to node 2 passes a bottleneck, data to node 3 does not.")
	simulated, err := rtl.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, simulated.Close()) }()
	l, err := net.Listen("unix", filepath.Join(p.dir, "card.sock"))
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- hwoffload.Serve(l, simulated) }()
	defer func() { err = errors.Join(err, l.Close(), <-served) }()

	addr := "unix:" + l.Addr().String()
	stop, err := p.attach(ctx, addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	t := traffic{card: simulated, slow: &vectors.Path{Node: 2, Token: token}, fast: &vectors.Path{Node: 3, Token: token, Capacity: 200e9}}
	if err := t.start(); err != nil {
		return err
	}
	for _, gbps := range []float64{10, 2, 10} {
		t.slow.Capacity = gbps * 1e9
		arrived, queue, err := t.run(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("\nBottleneck of %.0f Gbit/s: %.1f Gbit/s arrive in the second half of %v, with up to %v of queue.\n", gbps, arrived/1e9, phase, queue.Round(time.Microsecond))
		if err := p.show(ctx, "table", addr); err != nil {
			return err
		}
	}
	return p.show(ctx, "status", addr)
}

// attach starts the agent of the card. stop ends it.
func (p *cardProduct) attach(ctx context.Context, addr string) (stop func() error, err error) {
	file := filepath.Join(p.dir, "nodes.yaml")
	if err := os.WriteFile(file, []byte(nodes), 0o600); err != nil {
		return nil, err
	}
	args := []string{"attach", "--nodes", file, "--node", "1", addr}
	fmt.Println("# softroce-card " + strings.Join(args, " ") + " &")
	cmd := p.command(ctx, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop = func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := <-ended; err != nil {
			return fmt.Errorf("softroce-card attach: %w: %s", err, out.Bytes())
		}
		return nil
	}
	for {
		if p.command(ctx, "status", "--check", addr).Run() == nil {
			return stop, nil
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("softroce-card attach ended (%v): %s", err, out.Bytes())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), stop())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// traffic is what the card would send.
type traffic struct {
	card       *rtl.Card
	slow, fast *vectors.Path
	now        uint64 // clock of the card, ns
}

// start has the peers known to the card.
func (t *traffic) start() error {
	t.now = uint64(time.Hour)
	t.card.SetClock(t.now, false)
	for _, p := range []*vectors.Path{t.slow, t.fast} {
		regs.DestOf(t.card, p.Node-1).SetRxToken(token)
	}
	return t.card.Err()
}

// run sends for a phase in real time, while the agent decides. The figures are of its second half.
func (t *traffic) run(ctx context.Context) (bps float64, queue time.Duration, err error) {
	every := time.NewTicker(tick)
	defer every.Stop()
	var before float64
	for n := range phase / tick {
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-every.C:
		}
		t.slow.Send(t.card, t.now, tick)
		t.now = t.fast.Send(t.card, t.now, tick)
		t.card.SetClock(t.now, false)
		if n == phase/tick/2 {
			before, queue = t.slow.Arrived, 0
		}
		queue = max(queue, t.slow.Delay())
	}
	return (t.slow.Arrived - before) * 8 / (phase / 2).Seconds(), queue, t.card.Err()
}
