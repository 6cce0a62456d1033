// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/server"
)

// serveFlags are those of serve.
type serveFlags struct {
	host.EngineFlags
	announced                  announcement
	listen, bytes, slab, state string
	hold, grace                time.Duration
	nodes                      uint32
	quiet                      bool
}

func newServe(a *host.App) *cobra.Command {
	s := serveFlags{hold: lease.DefaultHold, grace: lease.DefaultGrace, nodes: lease.DefaultMaxNodes}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Lend memory to other hosts",
		Long: `Serve lends memory of this host to nodes until Ctrl-C. It takes the memory when it starts.

Who can reach the port can lease memory. Nodes access their own space only. With --state,
leases survive a restart of the server; the data in the pool does not.
With --directory, nodes find the server in an etcd, and can take memory of several servers.
Serve needs no privileges where the agent serves the device (softroce-xdp attach --nic).`,
		Args: cli.Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(a, cmd) },
	}
	s.Flags(a, cmd)
	f := cmd.Flags()
	f.StringVar(&s.listen, "listen", ":"+strconv.Itoa(server.Port), "[ADDRESS]:PORT")
	f.StringVar(&s.bytes, "bytes", "1G", "memory to lend")
	f.StringVar(&s.slab, "slab", cli.Bytes(server.DefaultSlabBytes), "unit of leases: a multiple of 4K, up to 1G")
	f.StringVar(&s.state, "state", "", "file where the leases are stored")
	f.VarP(cli.SpanVar(&s.hold, time.Millisecond, 24*time.Hour), "hold", "", "how long the space of a node whose connection is lost is kept")
	f.VarP(cli.SpanVar(&s.grace, time.Millisecond, time.Hour), "grace", "", "how long a node has to return space")
	f.Var(cli.CountVar(&s.nodes, 1, 4096), "nodes", "nodes at the same time; others are rejected")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "print no line when a node comes or goes")
	s.announced.flags(cmd)
	return cmd
}

// config returns what the flags say.
func (s *serveFlags) config() (c server.Config, err error) {
	if c.Bytes, err = cli.ParseBytes(s.bytes); err != nil {
		return c, cli.Usage(fmt.Errorf("--bytes: %w", err))
	}
	if c.SlabBytes, err = cli.ParseBytes(s.slab); err != nil {
		return c, cli.Usage(fmt.Errorf("--slab: %w", err))
	}
	switch {
	case c.SlabBytes == 0 || c.SlabBytes%4096 != 0 || c.SlabBytes > 1<<30:
		return c, cli.Usagef("--slab %s: choose a multiple of 4K up to 1G", s.slab)
	case c.Bytes < c.SlabBytes || c.Bytes/c.SlabBytes > lease.MaxSlabs:
		return c, cli.Usagef("--bytes %s: choose 1 to %d times --slab", s.bytes, lease.MaxSlabs)
	}
	c.StateFile = s.state
	c.Lease = lease.Config{Hold: s.hold, Grace: s.grace, MaxNodes: int(s.nodes)}
	return c, nil
}

func (s *serveFlags) run(a *host.App, cmd *cobra.Command) error {
	c, err := s.config()
	if err != nil {
		return err
	}
	at, err := cli.ParseAddress(s.listen, server.Port)
	if err != nil {
		return cli.Usage(fmt.Errorf("--listen: %w", err))
	}
	d, err := s.announced.check()
	if err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	dev, name, err := s.OpenConnector(ctx, a)
	if err != nil {
		return err
	}
	defer dev.Close()
	w := cmd.OutOrStdout()
	var mu sync.Mutex
	c.Report = func(node string, from net.Addr, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case node == "":
			fmt.Fprintln(cmd.ErrOrStderr(), err)
		case s.quiet:
		case err == nil:
			fmt.Fprintf(w, "%s at %s: joined\n", node, from)
		default:
			fmt.Fprintf(w, "%s at %s: %v\n", node, from, err)
		}
	}
	learner, err := s.learner(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	c.Lease.Planner = learner
	srv, err := server.Listen(ctx, dev, at, c)
	if err != nil {
		return err
	}
	defer learn(ctx, learner)()
	fmt.Fprintf(w, "%s: %s in slabs of %s at %s\n", name, cli.Bytes(c.Bytes), cli.Bytes(c.SlabBytes), srv.Addr())
	ended, err := s.announced.run(ctx, d, dev, srv, cmd.ErrOrStderr())
	if err != nil {
		return fmt.Errorf("--directory: %w", err)
	}
	err = srv.Serve(ctx)
	if ctx.Err() == nil {
		return err
	}
	ended()
	n := srv.Status().Counts
	fmt.Fprintf(w, "%d nodes joined, %d connections lost, %d slabs returned, %d revoked\n", n.Joins, n.Lost, n.Returned, n.Revoked)
	return nil
}

// clientFlags are those of commands that ask a server.
type clientFlags struct {
	host.EngineFlags
	json    bool
	timeout time.Duration
}

func (p *clientFlags) flags(a *host.App, cmd *cobra.Command) {
	p.EngineFlags.Flags(a, cmd)
	p.timeout = 10 * time.Second
	f := cmd.Flags()
	f.BoolVar(&p.json, "json", false, "print JSON")
	f.VarP(cli.SpanVar(&p.timeout, time.Millisecond, 24*time.Hour), "timeout", "W", "how long to wait for an answer")
}

// bounded is a context for an answer.
func (p *clientFlags) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.timeout)
}
