// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/agent"
)

// readyFD is the descriptor on which a background agent says that it works, or
// why not.
const readyFD = 3

func newAttach() *cobra.Command {
	o := loader.Options{}
	var foreground, upgrade, agentOnly bool
	var rate string
	cmd := &cobra.Command{
		Use:   "attach IF...",
		Short: "Measure, table and pace RoCEv2 on interfaces",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ifs []string) error {
			o.PinRoot, o.RunDir, o.Version = global.pinRoot, global.runDir, version
			if rate != "" {
				bps, err := parseRate(rate)
				if err != nil {
					return fmt.Errorf("--rate: %w", err)
				}
				o.RateBps = bps
			}
			if agentOnly {
				return runBackgroundAgent(ifs[0], o)
			}
			return system(func(cmd *cobra.Command, ifs []string) error {
				return attachAll(cmd, ifs, o, foreground, upgrade)
			})(cmd, ifs)
		},
	}
	f := cmd.Flags()
	f.StringVar(&rate, "rate", "", "rate of the link, for example 25G; default: what the driver says")
	f.StringVar(&o.Pacer, "pacer", "auto", "auto, edt, htb, police or none")
	f.StringVar(&o.XDPMode, "xdp-mode", "auto", "auto, native or generic")
	f.StringVar(&o.Egress, "egress", "auto", "auto, tcx or clsact")
	f.StringVar(&o.Clock, "clock", "monotonic", "clock of the stamps: monotonic, or tai for hosts synchronised by PTP")
	f.StringVar(&o.NodeFile, "nodes", "", "node file: number, addresses and location of the other machines")
	f.Uint32Var(&o.Node, "node", 0, "number of this node")
	f.Uint32Var(&o.MaxDests, "max-destinations", loader.DefaultMaxDests, "size of the destination table")
	f.Uint32Var(&o.HelloRate, "hello-rate", loader.DefaultHelloRate, "HELLOs answered per second and CPU")
	f.DurationVar(&o.Heartbeat, "heartbeat-timeout", loader.DefaultHeartbeat, "without an agent for so long, traffic goes unpaced")
	f.BoolVar(&foreground, "foreground", false, "stay and run the agents here, for systemd; detach at the end")
	f.BoolVar(&upgrade, "upgrade", false, "replace the programs and the agent of a live attachment, without losing a packet")
	f.BoolVar(&agentOnly, "agent", false, "run the agent of an attached interface")
	_ = f.MarkHidden("agent")
	return cmd
}

// attachAll attaches every interface or none.
func attachAll(cmd *cobra.Command, ifs []string, o loader.Options, foreground, upgrade bool) error {
	var done []string
	for _, name := range ifs {
		if err := attachOne(cmd, name, o, upgrade); err != nil {
			for _, d := range done {
				_ = loader.Detach(d, o)
			}
			return err
		}
		done = append(done, name)
	}
	if foreground {
		return runForeground(ifs, o)
	}
	for _, name := range ifs {
		if err := startAgent(name, o); err != nil {
			return err
		}
	}
	return nil
}

// attachOne attaches, upgrades, or adopts what an agent that died has left.
func attachOne(cmd *cobra.Command, name string, o loader.Options, upgrade bool) error {
	if upgrade {
		if err := loader.StopAgent(o.RunDir, name, 5*time.Second); err != nil {
			return err
		}
		a, err := loader.Upgrade(name, o)
		if err != nil {
			return err
		}
		a.Close()
		fmt.Fprintf(cmd.OutOrStdout(), "%s: upgraded to %s\n", name, o.Version)
		return nil
	}
	a, err := loader.Attach(name, o)
	if errors.Is(err, loader.ErrAttached) {
		if loader.AgentAlive(o.RunDir, name) {
			return fmt.Errorf("%w: see `softroce-xdp status`; use --upgrade to replace the programs, or detach first", err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: attached already, but its agent was gone: starting a new one\n", name)
		return nil
	}
	if err != nil {
		return err
	}
	defer a.Close()
	s := a.State
	fmt.Fprintf(cmd.OutOrStdout(), "%s: attached (XDP %s, egress %s, pacer %s)\n", name, s.XDPMode, s.Egress, s.Pacer)
	return nil
}

// startAgent starts the agent as a process of its own and waits until it works.
func startAgent(name string, o loader.Options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	log, err := os.OpenFile(loader.LogPath(o.RunDir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		w.Close()
		return fmt.Errorf("agent log: %w", err)
	}
	defer log.Close()
	c := exec.Command(self, "attach", "--agent", "--pin-root", o.PinRoot, "--run-dir", o.RunDir, name)
	c.Stdout, c.Stderr, c.ExtraFiles = log, log, []*os.File{w}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Dir = "/"
	if err := c.Start(); err != nil {
		w.Close()
		return fmt.Errorf("start the agent: %w", err)
	}
	w.Close()
	line, err := bufio.NewReader(r).ReadString('\n')
	if line = strings.TrimSpace(line); line == "ready" {
		return c.Process.Release()
	}
	_ = c.Wait()
	if err != nil && !errors.Is(err, io.EOF) {
		line = err.Error()
	}
	return fmt.Errorf("%s: the agent did not start: %s (see %s)", name, line, loader.LogPath(o.RunDir, name))
}

func runBackgroundAgent(name string, o loader.Options) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	ready := os.NewFile(readyFD, "ready")
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("if", name)
	err := agent.Run(ctx, name, o, log, func() {
		fmt.Fprintln(ready, "ready")
		ready.Close()
	})
	if err != nil {
		fmt.Fprintln(ready, err)
		log.Error("agent ends", "err", err)
		return systemError{err}
	}
	return nil
}

// runForeground runs the agents here until a signal, then detaches.
func runForeground(ifs []string, o loader.Options) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var wg sync.WaitGroup
	var up sync.WaitGroup
	errs := make([]error, len(ifs))
	up.Add(len(ifs))
	for i, name := range ifs {
		wg.Go(func() {
			var once sync.Once
			defer once.Do(up.Done)
			errs[i] = agent.Run(ctx, name, o, log.With("if", name), func() { once.Do(up.Done) })
			if errs[i] != nil {
				stop()
			}
		})
	}
	up.Wait()
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	wg.Wait()
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	for _, name := range ifs {
		if err := loader.Detach(name, o); err != nil && !errors.Is(err, loader.ErrNotAttached) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
