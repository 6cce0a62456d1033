// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/key"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// New returns the command perf.
func New(a *host.App, log *cli.LogFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "perf",
		Short: "Measure the transport between two hosts",
		Long: `Perf measures the transport engine between two hosts that are both attached:

  host2# softroce-xdp perf server
  host1# softroce-xdp perf write host2

The client makes queue pairs, agrees with the server over TCP, and then writes, reads,
sends or does atomics. Each command has the same flags. Perf needs no privileges where
the agent serves the device (attach --nic). Otherwise it opens an engine of its own on
an attached interface, as root.

The result names what kept the queue pairs from sending, in samples of 20 ms: the
window of the policy, the pacer, a receiver that was not ready. All reasons are in
docs/change/transport.md.`,
	}
	cli.Group(cmd, newPerfServer(a, log))
	for _, c := range []struct{ op, short string }{
		{"write", "RDMA WRITE to the server's memory"},
		{"read", "RDMA READ from the server's memory"},
		{"send", "SEND into the server's receive queues"},
		{"fetch-add", "atomic FETCH_ADD on the server's memory"},
		{"compare-swap", "atomic COMPARE_SWAP on the server's memory"},
	} {
		cmd.AddCommand(newPerfClient(a, c.op, c.short))
	}
	return cmd
}

// serverFlags are those of the server.
type serverFlags struct {
	host.EngineFlags
	key.EncryptFlags
	listen, memory string
}

func newPerfServer(a *host.App, log *cli.LogFlags) *cobra.Command {
	var s serverFlags
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Answer clients, one after the other",
		Long: `Server makes the queue pairs and the memory that a client's run asks for, one run
after the other, until it is interrupted. Any host that reaches its TCP port may ask: it
has no passwords. Listen on an address of a network that you trust, and limit what
one run may take by --memory.`,
		Args: cli.Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(a, cmd, log) },
	}
	s.EngineFlags.Flags(a, cmd)
	s.RailFlag(a, cmd)
	s.EncryptFlags.Flags(cmd)
	cmd.Flags().StringVar(&s.memory, "memory", "1G", "memory that one run may register")
	cmd.Flags().StringVar(&s.listen, "listen", net.JoinHostPort("", strconv.Itoa(DefaultPort)), "TCP address for clients")
	return cmd
}

func (s *serverFlags) run(a *host.App, cmd *cobra.Command, log *cli.LogFlags) error {
	lent, err := cli.ParseBytes(s.memory)
	if err != nil {
		return cli.Usage(fmt.Errorf("--memory: %w", err))
	}
	listen, err := cli.ParseAddress(s.listen, DefaultPort)
	if err != nil {
		return cli.Usage(fmt.Errorf("--listen: %w", err))
	}
	with, err := s.Load()
	if err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	dev, name, err := s.Open(ctx, a)
	if err != nil {
		return err
	}
	defer dev.Close()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", listen, err)
	}
	defer l.Close()
	how := "the device of the agent"
	if d, ok := dev.(*nic.Device); ok {
		how = fmt.Sprintf("engine works (AF_XDP %s)", d.Mode())
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, clients come to %s\n", name, how, l.Addr())
	return Serve(ctx, l, dev, lent, with, log.Logger(cmd.ErrOrStderr()))
}

// perfFlags are those of the client's commands.
type perfFlags struct {
	host.EngineFlags
	key.EncryptFlags
	service                  cli.Choice
	sizes                    []string
	qps, depth, mtu, payload uint32
	timeout, retries         uint32
	latency, histogram       bool
	duration, warm, interval time.Duration
	count                    uint64
	check, json, quiet       bool
	private                  bool
}

func newPerfClient(a *host.App, op, short string) *cobra.Command {
	attr := verbs.DefaultAttr()
	p := perfFlags{
		service: cli.Choice{Value: "rc", Of: []string{"rc", "uc", "ud", "ooo"}}, sizes: []string{"64K"}, qps: 1, depth: 64,
		timeout: uint32(attr.Timeout), retries: uint32(attr.RetryCnt), duration: 5 * time.Second, warm: 500 * time.Millisecond, interval: time.Second,
	}
	atomic := strings.Contains(op, "-")
	if atomic {
		p.sizes = []string{"8"}
	}
	cmd := &cobra.Command{
		Use:   op + " HOST[:PORT]",
		Short: short,
		Args:  cli.Takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			plans, err := p.plans(cmd, op)
			if err != nil {
				return cli.Usage(err)
			}
			server, err := cli.ParseAddress(args[0], DefaultPort)
			if err != nil {
				return cli.Usage(err)
			}
			return p.run(a, cmd, server, plans)
		},
	}
	p.flags(a, cmd, atomic)
	return cmd
}

// flags adds the flags of a client's command.
func (p *perfFlags) flags(a *host.App, cmd *cobra.Command, atomic bool) {
	p.EngineFlags.Flags(a, cmd)
	if !atomic {
		p.RailFlag(a, cmd)
	}
	p.EncryptFlags.Flags(cmd)
	f := cmd.Flags()
	if !atomic {
		f.Var(cli.ListVar(&p.sizes, "a size", cli.OneWord), "size",
			"bytes of a message, or several sizes to measure one after the other: 64,4K,1M; for ud the path MTU if not given")
		f.Var(&p.service, "service", "rc, uc, ud, or ooo: rc in out-of-order mode, whose send is a write with notification")
	}
	f.Var(cli.CountVar(&p.qps, 1, MaxQPs), "qps", "queue pairs")
	f.Var(cli.CountVar(&p.depth, 1, MaxDepth), "depth", "messages outstanding on each queue pair")
	f.BoolVar(&p.latency, "latency", false, "one message at a time, and how long each takes from post to completion")
	f.BoolVar(&p.histogram, "histogram", false, "with --latency: draw the distribution")
	f.Var(cli.SpanVar(&p.duration, time.Millisecond, 24*time.Hour), "duration", "how long to measure")
	f.Var(cli.BigVar(&p.count, 1), "messages", "measure so many messages on each queue pair, instead of --duration")
	f.Var(cli.SpanVar(&p.warm, 0, time.Minute), "warmup", "how long to run before")
	f.Var(cli.CountVar(&p.mtu, 0, 4096), "mtu", "path MTU: 256, 512, 1024, 2048 or 4096; 0 for the largest that fits")
	if !atomic {
		f.Var(cli.CountVar(&p.payload, 0, ooo.MaxPayload), "payload",
			"for ooo: most bytes of data in a packet, a multiple of 4 from 256, if not the path MTU; an interface MTU of 1500 has room for 1392 (IPv6: 1372)")
	}
	f.Var(cli.CountVar(&p.timeout, 1, 31), "timeout", "code of the ACK timeout: 4.096us * 2^N")
	f.Var(cli.CountVar(&p.retries, 0, 7), "retries", "timeouts in a row before the peer is given up")
	f.BoolVar(&p.check, "check", false, "compare the data at the end")
	f.BoolVar(&p.private, "private-memory", false,
		"use memory that an agent does not share, as programs of libibverbs do: the agent copies it by system calls")
	f.Var(cli.SpanVar(&p.interval, 50*time.Millisecond, time.Hour), "interval", "time between two lines of progress")
	f.BoolVarP(&p.quiet, "quiet", "q", false, "no progress")
	f.BoolVar(&p.json, "json", false, "print the results as JSON, one line a size")
}

// plans returns a plan for each size.
func (p *perfFlags) plans(cmd *cobra.Command, op string) ([]Plan, error) {
	var out []Plan
	plan := Plan{
		Op: op, Service: p.service.Value, QPs: int(p.qps), Depth: int(p.depth), Latency: p.latency,
		Duration: p.duration, Warmup: p.warm, MTU: int(p.mtu), Payload: int(p.payload), Check: p.check, Private: p.private,
		Timeout: uint8(p.timeout), Retries: uint8(p.retries), Encrypted: p.Encrypt,
	}
	if len(p.Rails) > 0 && p.service.Value != "ooo" {
		return nil, errors.New("--rail goes with --service ooo: only out-of-order mode uses several interfaces")
	}
	if cmd.Flags().Changed("duration") && p.count != 0 {
		return nil, errors.New("choose --duration or --messages, not both")
	}
	if p.count != 0 {
		plan.Count, plan.Duration, plan.Warmup = p.count, 0, 0
	}
	if p.latency {
		for _, f := range []string{"qps", "depth"} {
			if cmd.Flags().Changed(f) {
				return nil, fmt.Errorf("--latency sends one message at a time: leave --%s out", f)
			}
		}
		plan.QPs, plan.Depth = 1, 1
	} else if p.histogram {
		return nil, fmt.Errorf("--histogram shows latencies: add --latency")
	}
	if p.service.Value == "ud" && !cmd.Flags().Changed("size") {
		p.sizes, plan.Fit = []string{"4K"}, true // the largest path MTU that there is
	}
	for _, s := range p.sizes {
		n, err := cli.ParseBytes(s)
		if err != nil {
			return nil, fmt.Errorf("--size: %w", err)
		}
		if n > MaxSize {
			return nil, fmt.Errorf("--size %s: at most %s", s, cli.Bytes(MaxSize))
		}
		plan.Size = uint32(n)
		if err := plan.Validate(); err != nil {
			return nil, err
		}
		out = append(out, plan)
	}
	return out, nil
}

func (p *perfFlags) run(a *host.App, cmd *cobra.Command, server string, plans []Plan) error {
	with, err := p.Load()
	if err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	p.Peer = server
	dev, name, err := p.Open(ctx, a)
	if err != nil {
		return err
	}
	defer dev.Close()
	w := cmd.OutOrStdout()
	for i, plan := range plans {
		c := Client{Device: dev, Interface: name, Interval: p.interval, Encryption: with}
		if !p.quiet && !p.json {
			c.Progress = tellMoments(cmd.ErrOrStderr())
		}
		res, err := c.Run(ctx, server, plan)
		if res == nil && errors.Is(err, context.Canceled) {
			return errors.New("interrupted before anything was measured")
		}
		if errors.Is(err, ErrData) {
			return cli.No(err)
		}
		if res == nil {
			return err
		}
		switch {
		case p.json:
			if err := json.NewEncoder(w).Encode(res); err != nil {
				return err
			}
		default:
			if i > 0 {
				fmt.Fprintln(w)
			}
			res.Write(w, p.histogram)
		}
		if err != nil && ctx.Err() == context.Canceled {
			return nil // interrupted: the results until then are printed
		}
	}
	return nil
}

// tellMoments prints a line per interval, with the throughput of that interval.
func tellMoments(w io.Writer) func(Moment) {
	var last Moment
	return func(m Moment) {
		dt := (m.Elapsed - last.Elapsed).Seconds()
		if m.Elapsed < last.Elapsed || dt <= 0 {
			last, dt = Moment{}, m.Elapsed.Seconds()
		}
		fmt.Fprintf(w, "%6.1fs  %sbit/s  %s messages/s\n", m.Elapsed.Seconds(),
			cli.Rate(uint64(float64(m.Bytes-last.Bytes)*8/dt)), cli.Count(uint64(float64(m.Messages-last.Messages)/dt)))
		last = m
	}
}
