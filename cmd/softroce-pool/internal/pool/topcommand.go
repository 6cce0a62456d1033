// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/node"
)

// topFlags are those of top.
type topFlags struct {
	host.EngineFlags
	interval, timeout time.Duration
}

func newTop(a *host.App) *cobra.Command {
	p := topFlags{interval: time.Second, timeout: 10 * time.Second}
	cmd := &cobra.Command{
		Use:   "top HOST[:PORT]",
		Short: "Watch the nodes and leases of a server on the terminal",
		Long: `Top shows the state of a host with "softroce-pool serve" live: what each node wanted and used, what
is expected of it and by which predictor, what is planned and what it has. Keys: up, down,
page up, page down scroll, space pauses, q ends it.`,
		Args: cli.Takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(a, cmd, args[0]) },
	}
	p.Flags(a, cmd)
	f := cmd.Flags()
	f.Var(cli.SpanVar(&p.interval, 100*time.Millisecond, time.Hour), "interval", "time between two refreshes")
	f.VarP(cli.SpanVar(&p.timeout, time.Millisecond, 24*time.Hour), "timeout", "W", "how long to wait for an answer")
	return cmd
}

func (p *topFlags) run(a *host.App, cmd *cobra.Command, host string) error {
	at, err := serverAddress(host)
	if err != nil {
		return err
	}
	if !cli.IsTerminal(os.Stdout) || !cli.IsTerminal(os.Stdin) {
		return cli.Usagef("top needs a terminal: use `softroce-pool status` here")
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	p.Peer = at
	dev, _, err := p.OpenConnector(ctx, a)
	if err != nil {
		return err
	}
	defer dev.Close()
	ask := func() (lease.Status, time.Time, error) {
		bounded := clientFlags{timeout: p.timeout}
		ctx, cancel := bounded.bounded(ctx)
		defer cancel()
		s, err := node.Status(ctx, dev, at)
		return s, time.Now(), err
	}
	screen := newTopScreen(at, ask)
	err = cli.RunScreen(ctx, screen, p.interval, os.Stdin, os.Stdout)
	stop()
	screen.Wait() // it uses the device
	return err
}
