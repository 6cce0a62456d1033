// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader"
)

// planReload plans the upgrade of an interface whose agent runs in a process of `attach
// --foreground`, that of a unit for example: the process gets SIGHUP and upgrades itself. It has
// settings of its own, so that none are accepted here.
func (j *attachJob) planReload(agent int) error {
	var given []string
	(&settings{}).flags().VisitAll(func(f *pflag.Flag) {
		if j.cmd.Flags().Changed(f.Name) {
			given = append(given, "--"+f.Name)
		}
	})
	if len(given) > 0 {
		return cli.Usagef("%s: %v: the agent is process %d of `attach --foreground`, which has its settings from its own command line and file: change them there, "+
			"then `softroce-xdp attach --upgrade %[1]s` without settings (systemd: `systemctl reload softroce-xdp@%[1]s`)", j.name, given, agent)
	}
	// The process itself is kept, and not only its ID, which another one may have when it is told to reload.
	process, err := os.FindProcess(agent)
	if err != nil {
		return fmt.Errorf("%s: agent %d: %w", j.name, agent, err)
	}
	if loader.AgentProcess(j.name, j.set.Options) != agent {
		return fmt.Errorf("%s: agent %d has ended meanwhile: try again", j.name, agent)
	}
	j.process = process
	return nil
}

const (
	// reloadPatience is how long a reload may take. A process that refuses writes the reason to its log only.
	reloadPatience = 30 * time.Second
	// reloadLooks are the looks at it in that time. They are counted: a command that stood still has not looked.
	reloadLooks = 600
)

// reloadAll has the foreground processes of the jobs reload, and returns when each of their
// interfaces has the new agent. It releases control, which the processes need.
func reloadAll(all []*attachJob, control *loader.Control) error {
	jobs := slices.DeleteFunc(slices.Clone(all), func(j *attachJob) bool { return j.process == nil })
	if len(jobs) == 0 {
		return nil
	}
	before := map[*attachJob]loader.State{}
	for _, j := range jobs {
		st, err := loader.ReadState(j.RunDir, j.name)
		if err != nil {
			return err
		}
		before[j] = st
	}
	control.Release()
	for _, j := range all {
		j.set.Control = nil // which another process may have: attachAll takes it again to detach
	}
	done := map[int]bool{} // a process can have several interfaces
	for _, j := range jobs {
		if done[j.process.Pid] {
			continue
		}
		done[j.process.Pid] = true
		if err := j.process.Signal(unix.SIGHUP); err != nil {
			return fmt.Errorf("%s: agent %d: %w", j.name, j.process.Pid, err)
		}
	}
	var errs []error
	for _, j := range jobs {
		errs = append(errs, j.waitReload(before[j]))
	}
	return errors.Join(errs...)
}

// waitReload waits until the interface has another agent than before.
func (j *attachJob) waitReload(before loader.State) error {
	for range reloadLooks {
		st, err := loader.ReadState(j.RunDir, j.name)
		if err == nil && st.AgentStart != before.AgentStart && loader.AgentAlive(j.RunDir, j.name) {
			j.report = fmt.Sprintf("upgraded from %s to %s by its process %d", before.Version, st.Version, st.AgentPID)
			return nil
		}
		if errors.Is(j.process.Signal(unix.Signal(0)), os.ErrProcessDone) {
			return fmt.Errorf("%s: process %d has ended instead of reloading: see its log", j.name, j.process.Pid)
		}
		time.Sleep(reloadPatience / reloadLooks)
	}
	return fmt.Errorf("%s: process %d has not reloaded within %v: its log says whether it refuses, and why", j.name, j.process.Pid, reloadPatience)
}

// controlPatience is how long an agent waits for control before it logs that it waits.
const controlPatience = time.Second

// takeControl takes control of the interface as soon as no other process has it. That process may start an agent, whose engine
// this one would take away if it went on without control.
func (j *attachJob) takeControl(ctx context.Context, log *slog.Logger) (*loader.Control, error) {
	o := j.Options()
	o.Patience = controlPatience
	control, err := loader.TakeControl(o, j.name)
	if errors.Is(err, loader.ErrBusy) {
		log.Info("reload: waits for another command", "err", err)
		control, err = loader.AwaitControl(ctx, o, j.name)
	}
	return control, err
}

// reload replaces programs and settings of a background agent that was executed again. Control is the caller's, also after
// an error: until the agent works, other commands would find none. The error wraps ErrAgentRunning if they have started
// another one meanwhile.
func (j *attachJob) reload(ctx context.Context, log *slog.Logger) (*loader.Control, error) {
	control, err := j.takeControl(ctx, log)
	if err != nil {
		return &loader.Control{}, err
	}
	if loader.HasAgent(j.name, j.Options()) {
		return control, loader.ErrAgentRunning
	}
	fresh, err := j.reread()
	if err != nil {
		return control, err
	}
	if j.set, err = fresh.settingsFor(j.name, j.cmd.Flags()); err != nil {
		return control, err
	}
	j.set.Control = control
	if err := j.plan(); err != nil {
		return control, err
	}
	return control, j.replacePrograms()
}
