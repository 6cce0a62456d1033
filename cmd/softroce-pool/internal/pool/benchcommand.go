// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// benchFlags are those of bench.
type benchFlags struct {
	clientFlags
	name, bytes, local string
	length             time.Duration
}

func newBench(a *host.App) *cobra.Command {
	p := benchFlags{length: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "bench HOST[:PORT]",
		Short: "Measure accesses to the memory of a server",
		Long: `Bench leases memory of a host with "softroce-pool serve", and uses it as memory of which a part is
local. It measures reads and writes at random and in order: the times of pages that come
from the pool and go there, and the bandwidth. A READ of 4 KiB without the memory manager,
measured in the same run, is what to compare with.`,
		Args: cli.Takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(a, cmd, args[0]) },
	}
	p.flags(a, cmd)
	f := cmd.Flags()
	f.StringVar(&p.name, "name", "bench", "name of this node, unique at the server")
	f.StringVar(&p.bytes, "bytes", "64M", "memory to use, at least 1M")
	f.StringVar(&p.local, "local", "16M", "how much of it is local, at least 64K and less than --bytes")
	f.VarP(cli.SpanVar(&p.length, 10*time.Millisecond, time.Hour), "length", "t", "time of each of the five measurements")
	return cmd
}

// bench returns what the flags say.
func (p *benchFlags) bench() (b benchmark, err error) {
	if b.Size, err = cli.ParseBytes(p.bytes); err != nil {
		return b, cli.Usage(fmt.Errorf("--bytes: %w", err))
	}
	if b.Local, err = cli.ParseBytes(p.local); err != nil {
		return b, cli.Usage(fmt.Errorf("--local: %w", err))
	}
	switch {
	case b.Size < 1<<20 || b.Size > 1<<40:
		return b, cli.Usagef("--bytes %s: choose 1M to 1T", p.bytes)
	case b.Local < 64<<10 || b.Local >= b.Size:
		return b, cli.Usagef("--local %s: choose at least 64K, and less than --bytes", p.local)
	}
	if err := checkNodeName(p.name); err != nil {
		return b, err
	}
	b.Node, b.Timeout, b.Length, b.Seed = node.Config{Name: p.name, Period: 200 * time.Millisecond}, p.timeout, p.length, 1
	return b, nil
}

func (p *benchFlags) run(a *host.App, cmd *cobra.Command, host string) error {
	at, err := serverAddress(host)
	if err != nil {
		return err
	}
	b, err := p.bench()
	if err != nil {
		return err
	}
	return p.withDevice(a, cmd, func(ctx context.Context, dev verbs.Device) error {
		b.Device, b.Server, b.Joined = dev, at, keepTicket(a.RunDir, p.name, cmd.ErrOrStderr())
		figures, err := b.Run(ctx)
		if err != nil {
			return err
		}
		if p.json {
			return cli.WriteJSON(cmd.OutOrStdout(), figures)
		}
		return writeFigures(cmd.OutOrStdout(), figures)
	})
}
