// SPDX-License-Identifier: Apache-2.0

package attach

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
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/loader"
)

// runForeground runs the agents in this process. SIGTERM and SIGINT detach and end it. SIGHUP
// replaces this process by the installed binary with --upgrade: the pid stays, and no packet
// is lost. ctx is that of catchEnds.
func runForeground(ctx context.Context, a *attacher, jobs []*attachJob, control *loader.Control, reloads <-chan os.Signal) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	log := a.log.AgentLogger(os.Stderr)
	reload := a.onReload(running, stop, jobs, log, reloads)

	errs := runAgents(running, stop, jobs, log, control.Release)
	if reload.Load() && ctx.Err() == nil && errors.Join(errs...) == nil {
		log.Info("becomes the installed binary")
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReloading)
		errs = append(errs, becomeInstalled(ctx))
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	for i, j := range jobs {
		if !errors.Is(errs[i], loader.ErrLost) { // else it is detached
			errs = append(errs, j.end())
		}
	}
	return errors.Join(errs...)
}

// catchReloads catches SIGHUP from now on. It is called before the configuration file is read, so that a reload which is
// requested meanwhile follows.
func catchReloads() <-chan os.Signal {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	return hup
}

// catchEnds catches SIGTERM and SIGINT from now on: they end the context. A process that attaches is not ended meanwhile,
// and detaches then.
func catchEnds() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
}

// onReload handles SIGHUP: unless the new process would refuse the settings, the result becomes true
// and the agents are stopped.
func (a *attacher) onReload(ctx context.Context, stop func(), jobs []*attachJob, log *slog.Logger, hup <-chan os.Signal) *atomic.Bool {
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
	return &reload
}

// end detaches the interface, unless it has the agent of another process.
func (j *attachJob) end() error {
	o := j.set.Options
	var err error
	if o.Control, err = loader.TakeControl(o, j.name); err != nil {
		return err
	}
	defer o.Control.Release()
	if loader.HasAgent(j.name, o) {
		return nil
	}
	if err := loader.Detach(j.name, o); !errors.Is(err, loader.ErrNotAttached) {
		return err
	}
	return nil
}

// checkReload reads the settings again, and returns an error if the new process would refuse
// them. The agent then continues.
func checkReload(a *attacher, jobs []*attachJob) error {
	fresh, err := a.reread()
	if err != nil {
		return err
	}
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

// reread reads the configuration file as it is now.
func (a *attacher) reread() (*attacher, error) {
	fresh, root := &attacher{&host.App{}, &cli.LogFlags{}}, &cobra.Command{}
	fresh.Flags(root.PersistentFlags())
	fresh.log.Flags(root.PersistentFlags())
	fresh.ConfigPath = a.ConfigPath
	if err := fresh.ReadWhole(root); err != nil {
		return nil, err
	}
	fresh.PinRoot, fresh.RunDir = a.PinRoot, a.RunDir
	return fresh, nil
}

// runAgents runs an agent per interface, and returns when all have ended. The failure of one
// ends the others, unless its interface is lost. working is called when each of them is ready or
// has failed.
func runAgents(ctx context.Context, stop func(), jobs []*attachJob, log *slog.Logger, working func()) []error {
	var all, up sync.WaitGroup
	errs := make([]error, len(jobs))
	up.Add(len(jobs))
	for i, j := range jobs {
		all.Go(func() {
			var once sync.Once
			ready := func() { once.Do(up.Done) }
			defer ready()
			o := j.Options()
			o.Foreground = true
			errs[i] = runAgent(ctx, j.name, o, log.With("if", j.name), ready)
			if errs[i] != nil && !errors.Is(errs[i], loader.ErrLost) {
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
// replaced by a newer version, with the same arguments and --upgrade. If ctx, that of catchEnds, has ended, it returns nil instead.
func becomeInstalled(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// The descriptor of --tell is closed.
	args := slices.DeleteFunc(slices.Clone(os.Args), func(s string) bool { return s == "--tell" })
	if !slices.Contains(args, "--upgrade") {
		end := len(args)
		if i := slices.Index(args, "--"); i >= 0 {
			end = i // what follows are interfaces
		}
		args = slices.Insert(args, end, "--upgrade")
	}
	// A further SIGHUP would end the new program until it calls catchReloads. It reads the settings after that.
	signal.Ignore(unix.SIGHUP)
	if ctx.Err() != nil {
		return nil
	}
	// SIGTERM and SIGINT end it until it calls catchEnds. A Go program blocks neither of them.
	return unix.Exec(self, args, os.Environ())
}
