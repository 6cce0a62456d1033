// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/perf"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/units"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func newPerf(a *app) *cobra.Command {
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
	group(cmd, newPerfServer(a))
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

// engineFlags are the flags of commands that open an engine.
type engineFlags struct {
	iface     string
	rails     []string
	spin      time.Duration
	precredit bool
	largeDSCP uint32
}

func (e *engineFlags) flags(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&e.iface, "dev", "", "the attached interface; may be left out if there is one")
	e.spin = 20 * time.Microsecond
	f.Var(spanVar{&e.spin, 0, time.Second}, "spin", "how long the idle engine polls before it sleeps: latency against CPU time")
	f.BoolVar(&e.precredit, "precredit", false, "grant pre-credit to peers whose engine has it too, and send first round trips on theirs")
	f.Var(countVar{&e.largeDSCP, 0, 63}, "large-dscp", "with --precredit: DSCP of large flows, for switches with a queue that they serve last; 0 for none")
	_ = cmd.RegisterFlagCompletionFunc("dev", a.completeAttached)
}

// served returns the interface whose agent serves its engine: the one that was named, or the only one;
// "" if there is none. It needs no privileges.
func (e *engineFlags) served(a *app) string {
	names := []string{e.iface}
	if e.iface == "" {
		names = proto.Served(a.runDir)
	}
	if len(names) != 1 {
		return ""
	}
	if _, err := os.Stat(proto.SocketPath(a.runDir, names[0])); err != nil {
		return ""
	}
	return names[0]
}

// openServed opens the device that the agent of an interface serves.
func (e *engineFlags) openServed(ctx context.Context, a *app, name string) (verbs.Device, error) {
	spin := e.spin
	if spin == 0 {
		spin = -1
	}
	return rdma.Open(ctx, name, rdma.WithConfig(client.Config{RunDir: a.runDir, Spin: spin}))
}

// open opens a device on the interface, and returns the name of the interface.
func (e *engineFlags) open(ctx context.Context, a *app) (verbs.Device, string, error) {
	if name := e.served(a); name != "" {
		if len(e.rails) > 0 {
			return nil, "", usageError{fmt.Errorf("the agent of %s serves its engine, which has one interface: --rail is for an engine of this command, after `softroce-xdp attach --upgrade --nic=false %s`", name, name), false}
		}
		if e.precredit || e.largeDSCP != 0 {
			return nil, "", usageError{fmt.Errorf("the agent of %s serves its engine: --precredit and --large-dscp are for an engine of this command; for all users of the device, `softroce-xdp attach --upgrade --nic-precredit %s`", name, name), false}
		}
		dev, err := e.openServed(ctx, a, name)
		return dev, name, err
	}
	var args []string
	if e.iface != "" {
		args = []string{e.iface}
	}
	name, err := a.one(args)
	if err != nil {
		return nil, "", err
	}
	if e.largeDSCP != 0 && !e.precredit {
		return nil, "", usageError{errors.New("--large-dscp goes with --precredit"), false}
	}
	spin := e.spin
	if spin == 0 {
		spin = -1
	}
	dev, err := rdma.Open(ctx, name, rdma.WithDriver("softroce"), rdma.WithConfig(engine.Config{
		Loader: a.options(),
		Rails:  e.rails,
		NIC:    nic.Options{Spin: spin, PreCredit: e.precredit, LargeDSCP: uint8(e.largeDSCP)},
	}))
	return dev, strings.Join(append([]string{name}, e.rails...), " and "), err
}

// railFlag is the flag for further interfaces.
func (e *engineFlags) railFlag(a *app, cmd *cobra.Command) {
	cmd.Flags().Var(newList(&e.rails, "an interface", word), "rail", "further attached interfaces for --service ooo, as many at the client as at the server: the n-th leads to the n-th")
	_ = cmd.RegisterFlagCompletionFunc("rail", a.completeAttached)
}

func newPerfServer(a *app) *cobra.Command {
	var eng engineFlags
	var enc encryptFlags
	listen, memory := "", ""
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Answer clients, one after the other",
		Long: `Server makes the queue pairs and the memory that a client's run asks for, one run
after the other, until it is interrupted. Any host that reaches its TCP port may ask: it
has no passwords. Listen on an address of a network that you trust, and limit what
one run may take by --memory.`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			lent, err := units.ParseBytes(memory)
			if err != nil {
				return usageError{fmt.Errorf("--memory: %w", err), false}
			}
			if listen, err = perf.Address(listen, perf.DefaultPort); err != nil {
				return usageError{fmt.Errorf("--listen: %w", err), false}
			}
			with, err := enc.load()
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			dev, name, err := eng.open(ctx, a)
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
			return perf.Serve(ctx, l, dev, lent, with, a.logger(cmd.ErrOrStderr()))
		},
	}
	eng.flags(a, cmd)
	eng.railFlag(a, cmd)
	enc.flags(cmd)
	cmd.Flags().StringVar(&memory, "memory", "1G", "memory that one run may register")
	cmd.Flags().StringVar(&listen, "listen", net.JoinHostPort("", strconv.Itoa(perf.DefaultPort)), "TCP address for clients")
	return cmd
}

// perfFlags are those of the client's commands.
type perfFlags struct {
	engineFlags
	encryptFlags
	service                  choice
	sizes                    []string
	qps, depth, mtu, payload uint32
	timeout, retries         uint32
	latency, histogram       bool
	duration, warm, interval time.Duration
	count                    uint64
	check, json, quiet       bool
}

func newPerfClient(a *app, op, short string) *cobra.Command {
	p := perfFlags{
		service: choice{value: "rc", of: []string{"rc", "uc", "ud", "ooo"}}, sizes: []string{"64K"}, qps: 1, depth: 64,
		timeout: 14, retries: 7, duration: 5 * time.Second, warm: 500 * time.Millisecond, interval: time.Second,
	}
	atomic := strings.Contains(op, "-")
	if atomic {
		p.sizes = []string{"8"}
	}
	cmd := &cobra.Command{
		Use:   op + " HOST[:PORT]",
		Short: short,
		Args:  takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			plans, err := p.plans(cmd, op)
			if err != nil {
				return usageError{err, false}
			}
			server, err := perf.Address(args[0], perf.DefaultPort)
			if err != nil {
				return usageError{err, false}
			}
			return p.run(a, cmd, server, plans)
		},
	}
	p.engineFlags.flags(a, cmd)
	if !atomic {
		p.railFlag(a, cmd)
	}
	p.encryptFlags.flags(cmd)
	f := cmd.Flags()
	if !atomic {
		f.Var(newList(&p.sizes, "a size", word), "size", "bytes of a message, or several sizes to measure one after the other: 64,4K,1M; for ud the path MTU if not given")
		f.Var(&p.service, "service", "rc, uc, ud, or ooo: rc in out-of-order mode, whose send is a write with notification")
	}
	f.Var(countVar{&p.qps, 1, perf.MaxQPs}, "qps", "queue pairs")
	f.Var(countVar{&p.depth, 1, perf.MaxDepth}, "depth", "messages outstanding on each queue pair")
	f.BoolVar(&p.latency, "latency", false, "one message at a time, and how long each takes from post to completion")
	f.BoolVar(&p.histogram, "histogram", false, "with --latency: draw the distribution")
	f.Var(spanVar{&p.duration, time.Millisecond, 24 * time.Hour}, "duration", "how long to measure")
	f.Var(bigVar{&p.count, 1}, "messages", "measure so many messages on each queue pair, instead of --duration")
	f.Var(spanVar{&p.warm, 0, time.Minute}, "warmup", "how long to run before")
	f.Var(countVar{&p.mtu, 0, 4096}, "mtu", "path MTU: 256, 512, 1024, 2048 or 4096; 0 for the largest that fits")
	if !atomic {
		f.Var(countVar{&p.payload, 0, ooo.MaxPayload}, "payload", "for ooo: most bytes of data in a packet, a multiple of 4 from 256, if not the path MTU; an interface MTU of 1500 has room for 1392 (IPv6: 1372)")
	}
	f.Var(countVar{&p.timeout, 1, 31}, "timeout", "code of the ACK timeout: 4.096us * 2^N")
	f.Var(countVar{&p.retries, 0, 7}, "retries", "timeouts in a row before the peer is given up")
	f.BoolVar(&p.check, "check", false, "compare the data at the end")
	f.Var(spanVar{&p.interval, 50 * time.Millisecond, time.Hour}, "interval", "time between two lines of progress")
	f.BoolVarP(&p.quiet, "quiet", "q", false, "no progress")
	f.BoolVar(&p.json, "json", false, "print the results as JSON, one line a size")
	return cmd
}

// plans returns a plan for each size.
func (p *perfFlags) plans(cmd *cobra.Command, op string) ([]perf.Plan, error) {
	var out []perf.Plan
	plan := perf.Plan{
		Op: op, Service: p.service.value, QPs: int(p.qps), Depth: int(p.depth), Latency: p.latency,
		Duration: p.duration, Warmup: p.warm, MTU: int(p.mtu), Payload: int(p.payload), Check: p.check, Timeout: uint8(p.timeout), Retries: uint8(p.retries),
		Encrypted: p.encrypt,
	}
	if len(p.rails) > 0 && p.service.value != "ooo" {
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
	if p.service.value == "ud" && !cmd.Flags().Changed("size") {
		p.sizes, plan.Fit = []string{"4K"}, true // the largest path MTU that there is
	}
	for _, s := range p.sizes {
		n, err := units.ParseBytes(s)
		if err != nil {
			return nil, fmt.Errorf("--size: %w", err)
		}
		if n > perf.MaxSize {
			return nil, fmt.Errorf("--size %s: at most %s", s, units.Bytes(perf.MaxSize))
		}
		plan.Size = uint32(n)
		if err := plan.Validate(); err != nil {
			return nil, err
		}
		out = append(out, plan)
	}
	return out, nil
}

// interruptible ends the context with the first SIGINT or SIGTERM. The second one ends the
// process at once.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, unix.SIGINT, unix.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

func (p *perfFlags) run(a *app, cmd *cobra.Command, server string, plans []perf.Plan) error {
	with, err := p.load()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	dev, name, err := p.open(ctx, a)
	if err != nil {
		return err
	}
	defer dev.Close()
	w := cmd.OutOrStdout()
	for i, plan := range plans {
		c := perf.Client{Device: dev, Interface: name, Interval: p.interval, Encryption: with}
		if !p.quiet && !p.json {
			c.Progress = tellMoments(cmd.ErrOrStderr())
		}
		res, err := c.Run(ctx, server, plan)
		if res == nil && errors.Is(err, context.Canceled) {
			return errors.New("interrupted before anything was measured")
		}
		if errors.Is(err, perf.ErrData) {
			return noError{err}
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
func tellMoments(w io.Writer) func(perf.Moment) {
	var last perf.Moment
	return func(m perf.Moment) {
		dt := (m.Elapsed - last.Elapsed).Seconds()
		if m.Elapsed < last.Elapsed || dt <= 0 {
			last, dt = perf.Moment{}, m.Elapsed.Seconds()
		}
		fmt.Fprintf(w, "%6.1fs  %sbit/s  %s messages/s\n", m.Elapsed.Seconds(),
			units.Rate(uint64(float64(m.Bytes-last.Bytes)*8/dt)), units.Count(uint64(float64(m.Messages-last.Messages)/dt)))
		last = m
	}
}
