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
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/logfile"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/loglimit"
	"github.com/softroce/softroce-xdp/loader"
)

// readyFD is the descriptor to which a background agent writes "ready" or its error.
const readyFD = 3

// newAgent is the background process of an attached interface. SIGTERM and SIGINT end it. SIGHUP
// replaces it by the installed binary with --upgrade, as that of a foreground process.
func newAgent(a *app) *cobra.Command {
	var tell, upgrade bool
	var logPath string
	cmd := &cobra.Command{
		Use:    "agent IF",
		Short:  "Run the agent of an attached interface",
		Hidden: true,
		Args:   takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkName(args[0]); err != nil {
				return err
			}
			// All work is done in one goroutine: with more processors, idle threads
			// wake each other, and that costs more than the work.
			// A device that the agent serves has threads of its own.
			serves := false
			if st, err := loader.ReadState(a.runDir, args[0]); err == nil {
				serves = st.NIC != nil
			}
			if !serves {
				runtime.GOMAXPROCS(1)
			}
			if !serves && os.Getenv("GOGC") == "" {
				// The agent makes little garbage: lower memory use is worth the CPU time of
				// more collections.
				debug.SetGCPercent(10)
			}
			ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
			defer stop()
			say := func(string) {}
			if tell {
				ready := os.NewFile(readyFD, "ready")
				say = func(s string) {
					fmt.Fprintln(ready, s)
					ready.Close()
				}
			}
			errOut := cmd.ErrOrStderr()
			if logPath != "" {
				errOut = logfile.Stderr(logPath)
			}
			log := a.agentLogger(errOut).With("if", args[0])
			job := &attachJob{app: a, name: args[0], cmd: cmd, upgrade: true}
			if upgrade {
				if err := job.reload(); err != nil {
					log.Error("reload: the agent goes on with the programs and settings that are there", "err", err)
				}
			}
			reload := a.onReload(ctx, stop, []*attachJob{job}, log)
			err := runAgent(ctx, args[0], a.options(), log, func() { say("ready") })
			if err == nil && reload.Load() {
				log.Info("becomes the installed binary")
				err = becomeInstalled()
			}
			if err != nil {
				say(err.Error())
			}
			if err != nil && !errors.Is(err, loader.ErrLost) { // the agent has logged that
				log.Error("agent ends", "err", err)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&tell, "tell", false, fmt.Sprintf("write on descriptor %d that it works, or why not", readyFD))
	cmd.Flags().BoolVar(&upgrade, "upgrade", false, "replace the programs first, after SIGHUP")
	cmd.Flags().StringVar(&logPath, "log", "", "the file that standard error leads to, which is not to grow without bound")
	return cmd
}

// logger returns a logger by --log-level and --log-format.
func (a *app) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel.value)); err != nil {
		panic("log level " + a.logLevel.value + " was accepted before")
	}
	o := &slog.HandlerOptions{Level: level}
	if a.logFormat.value == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// agentLogger is logger for an agent, which other hosts and local users can cause to write lines: it limits them.
func (a *app) agentLogger(w io.Writer) *slog.Logger {
	return slog.New(loglimit.New(a.logger(w).Handler()))
}

// startAgent starts the agent as a background process, and returns when it is ready.
func startAgent(a *app, name string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	log, err := logfile.Open(loader.LogPath(a.runDir, name))
	if err != nil {
		w.Close()
		return fmt.Errorf("agent log: %w", err)
	}
	defer log.Close()
	c := exec.Command(self, "agent", "--tell", "--log", log.Name(), "--pin-root", a.pinRoot, "--run-dir", a.runDir,
		"--log-level", a.logLevel.value, "--log-format", a.logFormat.value)
	if a.configPath != "" { // for a reload
		path, err := filepath.Abs(a.configPath)
		if err != nil {
			w.Close()
			return err
		}
		c.Args = append(c.Args, "--config", path)
	}
	c.Args = append(c.Args, name)
	c.Stdout, c.Stderr, c.ExtraFiles = log, log, []*os.File{w}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = c.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	line, err := bufio.NewReader(r).ReadString('\n')
	if line = strings.TrimSpace(line); line == "ready" {
		return c.Process.Release()
	}
	if line == "" {
		line = fmt.Sprint(c.Wait())
	} else {
		_ = c.Wait()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		line = err.Error()
	}
	return fmt.Errorf("%s: the agent did not start: %s (its log: %s)", name, line, loader.LogPath(a.runDir, name))
}
