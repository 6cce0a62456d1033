// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/key"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/rping"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// pingFlags are those of ping.
type pingFlags struct {
	host.EngineFlags
	key.EncryptFlags
	listen, verify, json, quiet bool
	count                       uint64
	size                        string
	interval, timeout           time.Duration
}

// New returns the command ping.
func New(a *host.App) *cobra.Command {
	p := pingFlags{verify: true, interval: time.Second, timeout: 10 * time.Second}
	cmd := &cobra.Command{
		Use:   "ping HOST[:PORT]",
		Short: "Ask a host for round trips over RDMA",
		Long: `Ping connects to a host by the communication manager and makes round trips: the server
READs the data from the memory of ping and WRITEs it back. Ping compares it and
prints how long that took:

  host2# softroce-xdp ping --listen
  host1# softroce-xdp ping host2

The protocol is that of rping from librdmacm. Either end may be rping: "rping -s" is
a server (-S at least the --size of ping), "rping -c -a HOST" a client.

With --listen the argument is the address to listen at, and may be left out:

  softroce-xdp ping --listen [ADDRESS][:PORT]

Ping needs no privileges where the agent serves the device (attach --nic). Otherwise
it opens an engine of its own on an attached interface, as root. With --encrypt the
connection is encrypted (softroce-xdp key); rping cannot do that. The connection is
made again after a round trip that was lost, and the device is opened again after an
upgrade of the agent. Ctrl-C ends ping with the summary. The
exit code is 0 if all round trips came back with the right data, else 3; it is 2
without a connection.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if p.listen {
				return cli.Takes(0, 1)(cmd, args)
			}
			return cli.Takes(1, 1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.listen {
				return p.serve(a, cmd, args)
			}
			return p.run(a, cmd, args[0])
		},
	}
	p.EngineFlags.Flags(a, cmd)
	p.EncryptFlags.Flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&p.listen, "listen", false, "be the server")
	f.VarP(cli.BigVar(&p.count, 1), "count", "c", "round trips; without it until Ctrl-C")
	f.StringVarP(&p.size, "size", "s", "64", "bytes of a round trip, up to 64K")
	f.VarP(cli.SpanVar(&p.interval, 0, time.Hour), "interval", "i", "time from one round trip to the next; 0 for none")
	f.VarP(cli.SpanVar(&p.timeout, time.Millisecond, time.Hour), "timeout", "W", "how long to wait for a connection, and for a round trip")
	f.BoolVar(&p.verify, "verify", true, "compare the data that comes back")
	f.BoolVarP(&p.quiet, "quiet", "q", false, "print the summary only")
	f.BoolVar(&p.json, "json", false, "print the summary only, as JSON; times are in nanoseconds")
	return cmd
}

// pingAddress returns the address with a port.
func pingAddress(s string) (string, error) {
	if s == "" {
		return net.JoinHostPort("", strconv.Itoa(rping.Port)), nil
	}
	return cli.ParseAddress(s, rping.Port)
}

func (p *pingFlags) serve(a *host.App, cmd *cobra.Command, args []string) error {
	for _, f := range []string{"count", "size", "interval", "timeout", "verify", "json"} {
		if cmd.Flags().Changed(f) {
			return cli.Usagef("--%s is for the client: leave it out with --listen", f)
		}
	}
	at, err := pingAddress(append(args, "")[0])
	if err != nil {
		return cli.Usage(fmt.Errorf("--listen: %w", err))
	}
	options, err := p.options()
	if err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	dev, name, again, err := p.openAgain(ctx, a)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	var mu sync.Mutex
	s := Server{
		Device: dev, Address: at, Options: append(rping.Options(), options...), Reopen: again,
		Listening: func(at net.Addr) { fmt.Fprintf(w, "%s: listening at %s\n", name, at) },
		Tell: func(line string) {
			mu.Lock()
			defer mu.Unlock()
			if !p.quiet {
				fmt.Fprintln(w, line)
			}
		},
	}
	defer func() { s.Device.Close() }()
	return s.Run(ctx)
}

// openAgain is openConnector, and returns how the device of an agent is opened again after an upgrade; nil
// for an engine of this process, which no upgrade ends.
func (p *pingFlags) openAgain(ctx context.Context, a *host.App) (verbs.Device, string, Reopen, error) {
	dev, name, err := p.OpenConnector(ctx, a)
	if err != nil || p.Served(a) == "" {
		return dev, name, nil, err
	}
	return dev, name, func(ctx context.Context) (verbs.Device, error) { return p.OpenServed(ctx, a, name) }, nil
}

// options returns the options of connections, in addition to those of rping.
func (p *pingFlags) options() ([]rdma.Option, error) {
	e, err := p.Load()
	if err != nil || e == nil {
		return nil, err
	}
	return []rdma.Option{rdma.WithEncryption(*e)}, nil
}

// plan returns what the client does.
func (p *pingFlags) plan(host string) (Plan, error) {
	server, err := pingAddress(host)
	if err != nil {
		return Plan{}, err
	}
	if name, _, err := net.SplitHostPort(server); err != nil || name == "" {
		return Plan{}, fmt.Errorf("%q: the host is missing: write HOST or HOST:PORT", host)
	}
	size, err := cli.ParseBytes(p.size)
	if err != nil {
		return Plan{}, fmt.Errorf("--size: %w", err)
	}
	if size > rping.MaxSize {
		return Plan{}, fmt.Errorf("--size %s: at most %s", p.size, cli.Bytes(rping.MaxSize))
	}
	return Plan{
		Server: server, Count: p.count, Size: int(size), Interval: p.interval, Timeout: p.timeout, Verify: p.verify,
	}, nil
}

func (p *pingFlags) run(a *host.App, cmd *cobra.Command, host string) error {
	plan, err := p.plan(host)
	if err != nil {
		return cli.Usage(err)
	}
	options, err := p.options()
	if err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	p.Peer = plan.Server
	dev, name, again, err := p.openAgain(ctx, a)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	lines := w
	if p.quiet || p.json {
		lines = io.Discard
	}
	c := Client{
		Device: dev, Reopen: again, Plan: plan, Options: options,
		Start: func(peer net.Addr) {
			fmt.Fprintf(lines, "ping %s by %s: round trips of %d bytes, READ and WRITE\n", peer, name, plan.Size)
		},
		Report: func(t Trip) { tellTrip(lines, plan, t) },
	}
	defer func() { c.Device.Close() }()
	s, err := c.Run(ctx)
	if err != nil {
		return err
	}
	s.Interface = name
	if p.json {
		if err := json.NewEncoder(w).Encode(s); err != nil {
			return err
		}
	} else {
		s.Write(w)
	}
	if err := s.Err(); err != nil {
		return cli.No(err)
	}
	return nil
}

// tellTrip prints a round trip.
func tellTrip(w io.Writer, plan Plan, t Trip) {
	if t.Err != nil {
		fmt.Fprintf(w, "seq=%d: %v\n", t.Seq, t.Err)
		return
	}
	fmt.Fprintf(w, "%d bytes from %s: seq=%d time=%s\n", plan.Size, plan.Server, t.Seq, cli.Nanos(int64(t.Time)))
}
