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
	"github.com/softroce/softroce-xdp/loader/agent"
)

// runForeground runs the agents in this process. SIGTERM and SIGINT detach and
// end it; SIGHUP makes it become the binary that is installed now, with --upgrade,
// under the same pid and without losing a packet.
func runForeground(a *app, jobs []*attachJob) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	var reload atomic.Bool
	go func() {
		select {
		case <-hup:
			reload.Store(true)
			stop()
		case <-ctx.Done():
		}
	}()

	log := a.logger(os.Stderr)
	errs := runAgents(ctx, stop, jobs, log)
	if reload.Load() && errors.Join(errs...) == nil {
		log.Info("becomes the installed binary")
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReloading)
		if err := becomeInstalled(); err != nil {
			errs = append(errs, err)
		}
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	for _, j := range jobs {
		if err := loader.Detach(j.name, j.set.Options); err != nil && !errors.Is(err, loader.ErrNotAttached) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// runAgents returns when all agents have ended; the failure of one ends the
// others.
func runAgents(ctx context.Context, stop func(), jobs []*attachJob, log *slog.Logger) []error {
	var all, up sync.WaitGroup
	errs := make([]error, len(jobs))
	up.Add(len(jobs))
	for i, j := range jobs {
		all.Go(func() {
			var once sync.Once
			ready := func() { once.Do(up.Done) }
			defer ready()
			if errs[i] = agent.Run(ctx, j.name, j.options(), log.With("if", j.name), ready); errs[i] != nil {
				stop()
			}
		})
	}
	up.Wait()
	if ctx.Err() == nil {
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	}
	all.Wait()
	return errs
}

// becomeInstalled executes the file that this program was started from, which a
// package manager may have replaced since.
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
