// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/mempool/directory"
	"github.com/softroce/softroce-xdp/mempool/directory/etcd"
	"github.com/softroce/softroce-xdp/mempool/server"
	"github.com/softroce/softroce-xdp/mempool/spread"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// directoryFlag is the flag --directory.
type directoryFlag struct{ url string }

func (d *directoryFlag) flags(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&d.url, "directory", "", usage)
}

// open returns the directory, or nil without the flag.
func (d *directoryFlag) open() (directory.Directory, error) {
	if d.url == "" {
		return nil, nil
	}
	e, err := etcd.Open(d.url)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--directory: %w", err))
	}
	return e, nil
}

// announcement is how serve lists a server in a directory.
type announcement struct {
	directoryFlag
	name string
}

func (p *announcement) flags(cmd *cobra.Command) {
	p.directoryFlag.flags(cmd, "URL of an etcd where this server is listed, such as http://HOST:2379")
	cmd.Flags().StringVar(&p.name, "name", hostName(), "name of this server in the directory")
}

// check returns the directory, or nil without one.
func (p *announcement) check() (directory.Directory, error) {
	d, err := p.open()
	if d == nil || err != nil {
		return nil, err
	}
	if err := (directory.Server{Name: p.name, Address: ":0", SlabBytes: 1}).Check(); errors.Is(err, directory.ErrName) {
		return nil, cli.Usagef("--name %q: %w", p.name, directory.ErrName)
	}
	return d, nil
}

// run lists a server until ctx ends. Without a directory it does nothing.
func (p *announcement) run(ctx context.Context, d directory.Directory, dev verbs.Device, srv *server.Server, errs io.Writer) (wait func(), err error) {
	if d == nil {
		return func() {}, nil
	}
	at, err := reachable(dev, srv.Addr())
	if err != nil {
		return nil, err
	}
	now := func() directory.Server {
		s := srv.Status()
		entry := directory.Server{Name: p.name, Address: at, SlabBytes: s.SlabBytes, Slabs: s.Slabs, Free: s.Free, Nodes: []directory.Node{}}
		for _, n := range s.Nodes {
			entry.Nodes = append(entry.Nodes, directory.Node{Name: n.Name, Slabs: n.Slabs})
		}
		return entry
	}
	return directory.Announce(ctx, d, now, func(err error) {
		if err == nil {
			fmt.Fprintln(errs, "the directory answers again")
			return
		}
		fmt.Fprintf(errs, "%v; nodes that have joined are served, and the directory is tried again\n", err)
	})
}

// reachable returns the address of a listener for nodes. One that listens at all addresses has the first of
// the device that is IPv4, or otherwise the last one: link-local ones are first.
func reachable(dev verbs.Device, at net.Addr) (string, error) {
	a := at.(rdma.Addr)
	if !a.Addr().IsUnspecified() {
		return at.String(), nil
	}
	port, err := dev.Port()
	if err != nil {
		return "", err
	}
	if len(port.GIDs) == 0 {
		return "", errors.New("the interface has no address: give one with --listen")
	}
	best := port.GIDs[len(port.GIDs)-1]
	for _, g := range port.GIDs {
		if g.Unmap().Is4() {
			best = g
			break
		}
	}
	return netip.AddrPortFrom(best.Unmap(), a.Port()).String(), nil
}

// runSpread joins all servers of a directory.
func (p *joinFlags) runSpread(a *host.App, cmd *cobra.Command, d directory.Directory, demand uint64) error {
	return p.withDevice(a, cmd, func(ctx context.Context, dev verbs.Device) error {
		j := spreader{
			Device: dev, Directory: d, Config: spread.Config{
				Name: p.name, Period: p.period, Demand: demand, Mirror: p.mirror, Joined: keepTicket(a.RunDir, p.name, cmd.ErrOrStderr()),
			},
			Timeout: p.timeout, Count: p.count, Check: p.check, JSON: p.json, Out: cmd.OutOrStdout(),
		}
		return wrongData(j.Run(ctx))
	})
}

// statusOf prints the servers that are listed in the directory.
func (p *clientFlags) statusOf(cmd *cobra.Command, d directory.Directory) error {
	ctx, cancel := p.bounded(cmd.Context())
	defer cancel()
	list, err := d.Servers(ctx)
	if err != nil {
		return err
	}
	if p.json {
		return cli.WriteJSON(cmd.OutOrStdout(), append([]directory.Server{}, list...))
	}
	return writeServers(cmd.OutOrStdout(), list)
}

// oneOf checks that a command has either a host or a directory.
func oneOf(cmd *cobra.Command, args []string, d directory.Directory) error {
	switch {
	case len(args) == 0 && d == nil:
		return cli.Usagef("HOST[:PORT] is missing: %s, or give --directory", strings.TrimSpace(cmd.CommandPath()+" HOST[:PORT]"))
	case len(args) > 0 && d != nil:
		return cli.Usagef("%q and --directory: give one of them", args[0])
	}
	return nil
}
