// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func newLeave(a *host.App) *cobra.Command {
	var p clientFlags
	name := hostName()
	cmd := &cobra.Command{
		Use:   "leave HOST[:PORT]",
		Short: "End what a node of this host leases",
		Long: `Leave ends the lease of a node, and its connection. A server accepts that with the
ticket that it gave the node: the commands that join keep it in a file, which the same user
can read on the same host. It prints the state of the pool afterwards.`,
		Args: cli.Takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := serverAddress(args[0])
			if err != nil {
				return err
			}
			if err := checkNodeName(name); err != nil {
				return err
			}
			p.Peer = at
			return p.ask(a, cmd, func(ctx context.Context, dev verbs.Device) (lease.Status, error) {
				return leavePool(ctx, a, dev, at, name)
			})
		},
	}
	p.flags(a, cmd)
	cmd.Flags().StringVar(&name, "name", name, "name of the node")
	return cmd
}

// leavePool removes a node of this user at a server, and then the ticket.
func leavePool(ctx context.Context, a *host.App, dev verbs.Device, at, name string) (lease.Status, error) {
	dir, err := defaultTicketDir(a.RunDir)
	if err != nil {
		return lease.Status{}, err
	}
	var server net.Addr
	s, err := node.Remove(ctx, dev, at, name, func(from net.Addr) (node.Ticket, error) {
		server = from
		return dir.Find(from, name)
	})
	if err == nil {
		err = dir.Forget(server, name)
	}
	return s, err
}

// keepTicket returns a function that stores the ticket of a node for leave. The node works without that.
func keepTicket(runDir, name string, errs io.Writer) func(*node.Node) {
	return func(n *node.Node) {
		dir, err := defaultTicketDir(runDir)
		if err == nil {
			err = dir.Keep(n.RemoteAddr(), name, n.Ticket())
		}
		if err != nil {
			fmt.Fprintf(errs, "the ticket of node %s cannot be stored, so `softroce-pool leave` cannot end its lease: %v\n", name, err)
		}
	}
}
