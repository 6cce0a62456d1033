// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/loader"
)

// readyFD is the descriptor to which a background agent writes "ready" or its error.
const readyFD = 3

// newAgent is the background process of an attached interface. SIGTERM and SIGINT end it. SIGHUP
// replaces it by the installed binary with --upgrade, as that of a foreground process.
func newAgent(a *attacher) *cobra.Command {
	var tell, upgrade bool
	var logPath string
	cmd := &cobra.Command{
		Use:    "agent IF",
		Short:  "Run the agent of an attached interface",
		Hidden: true,
		Args:   cli.Takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := host.CheckName(args[0]); err != nil {
				return err
			}
			reloads := catchReloads()
			ctx, release := catchEnds()
			defer release()
			// All work is done in one goroutine: with more processors, idle threads
			// wake each other, and that costs more than the work.
			// A device that the agent serves has threads of its own.
			serves := false
			if st, err := loader.ReadState(a.RunDir, args[0]); err == nil {
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
			running, stop := context.WithCancel(ctx)
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
				errOut = logStderr(logPath)
			}
			log := a.log.AgentLogger(errOut).With("if", args[0])
			job := &attachJob{attacher: a, name: args[0], cmd: cmd, upgrade: true}
			control := &loader.Control{}
			defer func() { control.Release() }()
			if upgrade {
				var err error
				control, err = job.reload(ctx, log)
				if ctx.Err() != nil { // told to end meanwhile
					return nil
				}
				if errors.Is(err, loader.ErrAgentRunning) {
					log.Info("another agent was started meanwhile: this one ends")
					return nil
				}
				if err != nil {
					log.Error("reload: the agent goes on with the programs and settings that are there", "err", err)
				}
			}
			reload := a.onReload(running, stop, []*attachJob{job}, log, reloads)
			err := runAgent(running, args[0], a.Options(), log, func() {
				control.Release()
				say("ready")
			})
			if err == nil && reload.Load() && ctx.Err() == nil {
				log.Info("becomes the installed binary")
				err = becomeInstalled(ctx)
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

// startAgent starts the agent as a background process, and returns when it is ready.
func startAgent(a *attacher, name string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	log, err := openLog(loader.LogPath(a.RunDir, name))
	if err != nil {
		w.Close()
		return fmt.Errorf("agent log: %w", err)
	}
	defer log.Close()
	c := exec.Command(self, "agent", "--tell", "--log", log.Name(), "--pin-root", a.PinRoot, "--run-dir", a.RunDir,
		"--log-level", a.log.Level.Value, "--log-format", a.log.Format.Value)
	if a.ConfigPath != "" { // for a reload
		path, err := filepath.Abs(a.ConfigPath)
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
	return fmt.Errorf("%s: the agent did not start: %s (its log: %s)", name, line, loader.LogPath(a.RunDir, name))
}
