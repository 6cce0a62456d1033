// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/pooling"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/units"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// poolBenchFlags are those of pool bench.
type poolBenchFlags struct {
	poolClientFlags
	name, bytes, local string
	length             time.Duration
}

func newPoolBench(a *app) *cobra.Command {
	p := poolBenchFlags{length: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "bench HOST[:PORT]",
		Short: "Measure accesses to the memory of a server",
		Long: `Bench leases memory of a host with "pool serve", and uses it as memory of which a part is
local. It measures reads and writes at random and in order: the times of pages that come
from the pool and go there, and the bandwidth. A READ of 4 KiB without the memory manager,
measured in the same run, is what to compare with.`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(a, cmd, args[0]) },
	}
	p.flags(a, cmd)
	f := cmd.Flags()
	f.StringVar(&p.name, "name", "bench", "name of this node, unique at the server")
	f.StringVar(&p.bytes, "bytes", "64M", "memory to use, at least 1M")
	f.StringVar(&p.local, "local", "16M", "how much of it is local, at least 64K and less than --bytes")
	f.VarP(spanVar{&p.length, 10 * time.Millisecond, time.Hour}, "length", "t", "time of each of the five measurements")
	return cmd
}

// bench returns what the flags say.
func (p *poolBenchFlags) bench() (b pooling.Bench, err error) {
	if b.Size, err = units.ParseBytes(p.bytes); err != nil {
		return b, usageError{fmt.Errorf("--bytes: %w", err), false}
	}
	if b.Local, err = units.ParseBytes(p.local); err != nil {
		return b, usageError{fmt.Errorf("--local: %w", err), false}
	}
	switch {
	case b.Size < 1<<20 || b.Size > 1<<40:
		return b, usagef("--bytes %s: choose 1M to 1T", p.bytes)
	case b.Local < 64<<10 || b.Local >= b.Size:
		return b, usagef("--local %s: choose at least 64K, and less than --bytes", p.local)
	}
	if err := checkNodeName(p.name); err != nil {
		return b, err
	}
	b.Node, b.Timeout, b.Length, b.Seed = node.Config{Name: p.name, Period: 200 * time.Millisecond}, p.timeout, p.length, 1
	return b, nil
}

func (p *poolBenchFlags) run(a *app, cmd *cobra.Command, host string) error {
	at, err := poolServer(host)
	if err != nil {
		return err
	}
	b, err := p.bench()
	if err != nil {
		return err
	}
	return p.withDevice(a, cmd, func(ctx context.Context, dev verbs.Device) error {
		b.Device, b.Server, b.Joined = dev, at, keepTicket(a.runDir, p.name, cmd.ErrOrStderr())
		figures, err := b.Run(ctx)
		if err != nil {
			return err
		}
		if p.json {
			return writeJSON(cmd.OutOrStdout(), figures)
		}
		return pooling.WriteFigures(cmd.OutOrStdout(), figures)
	})
}
