// SPDX-License-Identifier: Apache-2.0

// Package attach has the commands that change what is attached: attach and its agent, detach, clean, policy, and
// features, which shows what attach would find.
package attach

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/loader"
)

// attacher has what the commands share that change attachments.
type attacher struct {
	*host.App
	log *cli.LogFlags
}

// Commands makes the commands that attach, change and remove what is attached, and features.
func Commands(shared *host.App, log *cli.LogFlags) []*cobra.Command {
	a := &attacher{shared, log}
	return []*cobra.Command{newAttach(a), newDetach(a), newPolicy(a), newFeatures(a), newClean(a), newAgent(a)}
}

func newAttach(a *attacher) *cobra.Command {
	var foreground, upgrade bool
	var reloads <-chan os.Signal
	ctx, stop := context.Background(), func() {}
	cmd := &cobra.Command{
		Use:   "attach IF...",
		Short: "Measure, table and pace RoCEv2 on interfaces",
		Long: `Attach puts the data plane on the interfaces, starts an agent for each, and returns
when packets are handled. Either all interfaces are attached or none. Without
names, those listed in the configuration file are attached.

An interface whose agent has died is adopted: a new agent goes on with the table
as it is. An interface with another XDP program is refused.

Of an interface that is attached already (--upgrade, or one that is adopted), the
settings that the command line or the file names are changed, and the others stay.
Pacer, hooks, clock and table size cannot be changed then: asking for others is an
error.`,
		Example: `  softroce-xdp attach eth0
  softroce-xdp attach --rate 25G --pacer htb --policy target=300us eth0
  softroce-xdp attach --upgrade eth0`,
		ValidArgsFunction: host.CompleteInterfaces,
		// That of the root, which this one replaces, reads the configuration file.
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if foreground {
				reloads = catchReloads()
				ctx, stop = catchEnds()
			}
			return cmd.Root().PersistentPreRunE(cmd, args)
		},
		RunE: func(cmd *cobra.Command, ifs []string) (err error) {
			defer func() { stop() }()
			if len(ifs) == 0 {
				if ifs, err = configured(a.File); err != nil {
					return err
				}
			}
			if ifs, err = a.RealNames(ifs); err != nil {
				return err
			}
			jobs, err := newJobs(a, cmd, ifs, upgrade)
			if err != nil {
				return err
			}
			control, err := attachAll(jobs, foreground)
			if err != nil {
				return err
			}
			defer control.Release()
			if foreground {
				return runForeground(ctx, a, jobs, control, reloads)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.AddFlagSet((&settings{}).flags())
	f.BoolVar(&foreground, "foreground", false, "stay and run the agents here, for systemd; detach at the end")
	f.BoolVar(&upgrade, "upgrade", false, "replace the programs and the agent of a live attachment, without losing a packet")
	return cmd
}

// attachJob attaches one interface.
type attachJob struct {
	*attacher
	name    string
	set     *settings
	cmd     *cobra.Command
	upgrade bool

	foreground bool // the agent is run by this process
	recovered  bool // pins or state were lost, and are there again

	change     *revision   // changes of an existing attachment; nil = there is none yet
	process    *os.Process // foreground process that runs the agent, and gets SIGHUP to reload; nil = none
	kept       int         // process of the agent that goes on; 0 = none
	fresh      bool        // attached by this command: detached if another interface fails
	report     string      // result for the user; "" = nothing was done
	hiddenTags string      // message of loader.HiddenTags
}

func newJobs(a *attacher, cmd *cobra.Command, names []string, upgrade bool) ([]*attachJob, error) {
	jobs := make([]*attachJob, len(names))
	for i, name := range names {
		s, err := a.settingsFor(name, cmd.Flags())
		if err != nil {
			return nil, err
		}
		if !upgrade && !loader.IsAttached(name, s.Options) {
			if err := s.checkMinimums(name); err != nil {
				return nil, err
			}
			if err := s.checkNIC(false); err != nil {
				return nil, err
			}
		}
		jobs[i] = &attachJob{attacher: a, name: name, set: s, cmd: cmd, upgrade: upgrade}
	}
	return jobs, nil
}

// attachAll attaches all interfaces or none. It starts an agent for each, unless foreground.
// The caller releases control of the interfaces.
func attachAll(jobs []*attachJob, foreground bool) (_ *loader.Control, err error) {
	var names []string
	for _, j := range jobs {
		names = append(names, j.name)
	}
	control, err := loader.TakeControl(jobs[0].set.Options, names...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			for _, j := range jobs {
				if j.fresh {
					j.report = ""
					err = errors.Join(err, loader.Detach(j.name, j.set.Options))
				}
			}
			control.Release()
		}
		for _, j := range jobs {
			if j.report != "" {
				fmt.Fprintf(j.cmd.OutOrStdout(), "%s: %s\n", j.name, j.report)
			}
			if j.report != "" && j.hiddenTags != "" {
				fmt.Fprintf(j.cmd.ErrOrStderr(), "%s: %s\n", j.name, j.hiddenTags)
			}
		}
	}()
	for _, j := range jobs {
		j.set.Control, j.foreground = control, foreground
		if j.recovered, err = loader.Recover(j.name, j.set.Options); err != nil {
			return nil, err
		}
		if err := j.plan(); err != nil {
			return nil, err
		}
	}
	for _, j := range jobs {
		report, err := j.do()
		if err == nil && !foreground && j.kept == 0 && j.process == nil {
			err = startAgent(j.attacher, j.name)
		}
		if err != nil {
			return nil, err
		}
		j.report = report
	}
	if err := reloadAll(jobs, control); err != nil {
		return nil, err
	}
	return control, nil
}

// plan decides between attach, adopt and replace. It changes nothing.
func (j *attachJob) plan() error {
	if !j.upgrade && !loader.IsAttached(j.name, j.set.Options) {
		return nil
	}
	if err := loader.CheckRenamed(j.name, j.set.Options); err != nil {
		return err
	}
	agent := loader.AgentProcess(j.name, j.set.Options)
	if !j.upgrade && j.recovered && agent != 0 {
		j.kept = agent
		return nil
	}
	if !j.upgrade && loader.HasAgent(j.name, j.set.Options) {
		return fmt.Errorf("%s: %w: `softroce-xdp status %s` shows it; use --upgrade to replace the programs, or detach first", j.name, loader.ErrAttached, j.name)
	}
	att, err := loader.OpenHere(j.name, j.set.Options)
	if err != nil {
		return err
	}
	defer att.Close()
	if agent != 0 && att.State.Foreground && !j.foreground {
		return j.planReload(agent)
	}
	j.change, err = j.set.revise(att)
	return err
}

func (j *attachJob) do() (string, error) {
	switch {
	case j.process != nil:
		return "", nil // reloadAll reports it
	case j.kept != 0:
		return fmt.Sprintf("was attached, and had lost pins or state: they are there again, and the agent (pid %d) goes on", j.kept), nil
	case j.change == nil:
		return j.attach()
	case j.upgrade:
		return j.replace()
	}
	return j.adopt()
}

// attach attaches the data plane to the interface.
func (j *attachJob) attach() (string, error) {
	att, err := loader.Attach(j.name, j.set.Options)
	if err != nil {
		return "", err
	}
	defer att.Close()
	j.fresh = true
	j.hiddenTags = loader.HiddenTags(j.name)
	cfg, err := att.Config()
	if err != nil {
		return "", err
	}
	s := att.State
	return fmt.Sprintf("attached (XDP %s, egress %s, pacer %s, rate %sbit/s from %s)",
		s.XDPMode, s.Egress, s.Pacer, cli.Rate(cfg.LinkRateBps), s.RateFrom), nil
}

// adopt keeps an attachment without an agent, and changes its settings.
func (j *attachJob) adopt() (string, error) {
	att, err := loader.OpenHere(j.name, j.set.Options)
	if err != nil {
		return "", err
	}
	defer att.Close()
	if err := j.change.apply(att); err != nil {
		return "", err
	}
	return fmt.Sprintf("was attached and had lost its agent: adopted, with its table%v", j.change), nil
}

// replace stops the agent, and replaces the programs and the settings.
func (j *attachJob) replace() (string, error) {
	had := loader.AgentProcess(j.name, j.set.Options) != 0
	if !j.foreground { // a new agent could not start without its log
		log, err := openLog(loader.LogPath(j.RunDir, j.name))
		if err != nil {
			return "", fmt.Errorf("%s: nothing was changed: agent log: %w", j.name, err)
		}
		log.Close()
	}
	if err := loader.EndAgent(j.name, j.set.Options); err != nil {
		return "", err
	}
	err := j.replacePrograms()
	if err != nil && had { // the old programs or the new ones: they need an agent
		err = errors.Join(err, startAgent(j.attacher, j.name))
	}
	return fmt.Sprintf("upgraded from %s to %s%v", j.change.state.Version, cli.Version, j.change), err
}

func (j *attachJob) replacePrograms() error {
	att, err := loader.Upgrade(j.name, j.set.Options)
	if err != nil {
		return err
	}
	defer att.Close()
	return j.change.apply(att)
}
