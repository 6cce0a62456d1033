// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader"
)

// runForeground runs the agents in this process. SIGTERM and SIGINT detach and end it. SIGHUP
// replaces this process by the installed binary with --upgrade: the pid stays, and no packet
// is lost.
func runForeground(a *app, jobs []*attachJob, control *loader.Control) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	log := a.logger(os.Stderr)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	var reload atomic.Bool
	go func() {
		for {
			select {
			case <-hup:
				if err := checkReload(a, jobs); err != nil {
					log.Error("reload refused", "err", err)
					continue
				}
				reload.Store(true)
				stop()
				return
			case <-ctx.Done():
				return
			}
		}
	}()

	errs := runAgents(ctx, stop, jobs, log, control.Release)
	if reload.Load() && errors.Join(errs...) == nil {
		log.Info("becomes the installed binary")
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReloading)
		if err := becomeInstalled(); err != nil {
			errs = append(errs, err)
		}
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	for _, j := range jobs {
		errs = append(errs, j.end())
	}
	return errors.Join(errs...)
}

// end detaches the interface, unless it has the agent of another process.
func (j *attachJob) end() error {
	o := j.set.Options
	var err error
	if o.Control, err = loader.TakeControl(o, j.name); err != nil {
		return err
	}
	defer o.Control.Release()
	if loader.AgentAlive(j.runDir, j.name) {
		return nil
	}
	if err := loader.Detach(j.name, o); !errors.Is(err, loader.ErrNotAttached) {
		return err
	}
	return nil
}

// checkReload reads the settings again, and returns an error if the new process would refuse
// them. The agent then continues.
func checkReload(a *app, jobs []*attachJob) error {
	fresh := &app{}
	root := newRoot(fresh)
	fresh.configPath = a.configPath
	if err := fresh.readWhole(root); err != nil {
		return err
	}
	fresh.pinRoot, fresh.runDir = a.pinRoot, a.runDir
	for _, j := range jobs {
		s, err := fresh.settingsFor(j.name, j.cmd.Flags())
		if err != nil {
			return err
		}
		att, err := loader.OpenHere(j.name, s.Options)
		if err != nil {
			return err
		}
		_, err = s.revise(att)
		att.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// runAgents runs an agent per interface, and returns when all have ended. The failure of one
// ends the others. working is called when each of them is ready or has failed.
func runAgents(ctx context.Context, stop func(), jobs []*attachJob, log *slog.Logger, working func()) []error {
	var all, up sync.WaitGroup
	errs := make([]error, len(jobs))
	up.Add(len(jobs))
	for i, j := range jobs {
		all.Go(func() {
			var once sync.Once
			ready := func() { once.Do(up.Done) }
			defer ready()
			if errs[i] = runAgent(ctx, j.name, j.options(), log.With("if", j.name), ready); errs[i] != nil {
				stop()
			}
		})
	}
	up.Wait()
	working()
	if ctx.Err() == nil {
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	}
	all.Wait()
	return errs
}

// becomeInstalled executes the file from which this program was started, which may have been
// replaced by a newer version.
func becomeInstalled() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := slices.Clone(os.Args)
	if !slices.Contains(args, "--upgrade") {
		end := len(args)
		if i := slices.Index(args, "--"); i >= 0 {
			end = i // what follows are interfaces
		}
		args = slices.Insert(args, end, "--upgrade")
	}
	return unix.Exec(self, args, os.Environ())
}
