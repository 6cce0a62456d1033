// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/server"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// joinFlags are those of join.
type joinFlags struct {
	clientFlags
	nodeFlags
	directory directoryFlag
	count     uint64
	check     bool
	mirror    bool
}

func newJoin(a *host.App) *cobra.Command {
	var p joinFlags
	cmd := &cobra.Command{
		Use:   "join [HOST[:PORT]]",
		Short: "Lease memory of a server, and check it",
		Long: `Join leases memory of a host with "softroce-pool serve" until Ctrl-C, and prints the lease of each
period. With --check it writes each page of the lease and compares what it reads back;
the server then sees the space as used.

A connection that was lost is made again while the server keeps the space (serve --hold).
The exit code is 3 if data is wrong.

With --directory instead of a host, it leases memory of all servers that are listed there,
more where more is free. With --mirror each page is on two servers.`,
		Args: cli.Takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(a, cmd, args) },
	}
	p.clientFlags.flags(a, cmd)
	p.nodeFlags.flags(cmd, "memory that this node wants")
	f := cmd.Flags()
	f.VarP(cli.BigVar(&p.count, 1), "count", "c", "periods; without it until Ctrl-C")
	f.BoolVar(&p.check, "check", false, "write and read each page of each lease")
	p.directory.flags(cmd, "URL of an etcd where the servers are listed, such as http://HOST:2379")
	f.BoolVar(&p.mirror, "mirror", false, "write each page to two servers of the directory")
	return cmd
}

// hostName returns the name of this host, without its domain.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	name, _, _ = strings.Cut(name, ".")
	return name[:min(len(name), lease.MaxName)]
}

// serverAddress returns the address of an argument.
func serverAddress(arg string) (string, error) {
	at, err := cli.ParseAddress(arg, server.Port)
	if err == nil && strings.HasPrefix(at, ":") {
		err = fmt.Errorf("%q: the host is missing: write HOST or HOST:PORT", arg)
	}
	if err != nil {
		return "", cli.Usage(err)
	}
	return at, nil
}

func (p *joinFlags) run(a *host.App, cmd *cobra.Command, args []string) error {
	d, err := p.directory.open()
	if err != nil {
		return err
	}
	if err := oneOf(cmd, args, d); err != nil {
		return err
	}
	if p.mirror && d == nil {
		return cli.Usagef("--mirror needs several servers: give --directory")
	}
	config, err := p.config()
	if err != nil {
		return err
	}
	if d != nil {
		return p.runSpread(a, cmd, d, config.Demand)
	}
	at, err := serverAddress(args[0])
	if err != nil {
		return err
	}
	p.Peer = at
	return p.withDevice(a, cmd, func(ctx context.Context, dev verbs.Device) error {
		j := joiner{
			Device: dev, Server: at, Node: config, Timeout: p.timeout, Count: p.count,
			Check: p.check, JSON: p.json, Out: cmd.OutOrStdout(), Joined: keepTicket(a.RunDir, p.name, cmd.ErrOrStderr()),
		}
		return wrongData(j.Run(ctx))
	})
}

// withDevice calls f with a device that is open meanwhile. The context ends at Ctrl-C.
func (p *clientFlags) withDevice(a *host.App, cmd *cobra.Command, f func(context.Context, verbs.Device) error) error {
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	dev, _, err := p.OpenConnector(ctx, a)
	if err != nil {
		return err
	}
	defer dev.Close()
	return f(ctx, dev)
}

// wrongData makes wrong data the answer "no" of a check.
func wrongData(err error) error {
	if errors.Is(err, errData) {
		return cli.No(err)
	}
	return err
}

func newStatus(a *host.App) *cobra.Command {
	var p clientFlags
	var from directoryFlag
	cmd := &cobra.Command{
		Use:   "status [HOST[:PORT]]",
		Short: "Show the nodes and leases of a server",
		Long: `Status shows the memory of a host with "softroce-pool serve", its nodes, and what each of them
has. Without --json, PLANNED is what a node is to have, and LEASED what it has.
With --directory instead of a host, it shows the servers that are listed there, and what their
nodes lease.`,
		Args: cli.Takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := from.open()
			if err == nil {
				err = oneOf(cmd, args, d)
			}
			if err != nil {
				return err
			}
			if d != nil {
				return p.statusOf(cmd, d)
			}
			at, err := serverAddress(args[0])
			if err != nil {
				return err
			}
			p.Peer = at
			return p.ask(a, cmd, func(ctx context.Context, dev verbs.Device) (lease.Status, error) {
				return node.Status(ctx, dev, at)
			})
		},
	}
	p.flags(a, cmd)
	from.flags(cmd, "URL of an etcd where the servers are listed, such as http://HOST:2379")
	return cmd
}

// ask asks a server by a device of its own, and prints the state that is the answer.
func (p *clientFlags) ask(a *host.App, cmd *cobra.Command, question func(context.Context, verbs.Device) (lease.Status, error)) error {
	return p.withDevice(a, cmd, func(ctx context.Context, dev verbs.Device) error {
		ctx, cancel := p.bounded(ctx)
		defer cancel()
		s, err := question(ctx, dev)
		if err != nil {
			return err
		}
		return p.print(cmd.OutOrStdout(), s)
	})
}

func (p *clientFlags) print(w io.Writer, s lease.Status) error {
	if p.json {
		return cli.WriteJSON(w, s)
	}
	return writeStatus(w, s)
}
