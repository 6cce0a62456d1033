// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/units"
	"github.com/softroce/softroce-xdp/loader"
)

func newAttach(a *app) *cobra.Command {
	var foreground, upgrade bool
	cmd := &cobra.Command{
		Use:   "attach IF...",
		Short: "Measure, table and pace RoCEv2 on interfaces",
		Long: `Attach puts the data plane on the interfaces, starts an agent for each, and returns
when packets are handled. Either all interfaces are attached or none. Without
names, those listed in the configuration file are attached.

An interface whose agent has died is adopted: a new agent goes on with the table
as it is. An interface with an XDP program of somebody else is refused.`,
		Example: `  softroce-xdp attach eth0
  softroce-xdp attach --rate 25G --pacer htb --policy target=300us eth0
  softroce-xdp attach --upgrade eth0`,
		ValidArgsFunction: completeInterfaces,
		RunE: func(cmd *cobra.Command, ifs []string) (err error) {
			if len(ifs) == 0 {
				if ifs, err = configured(a.file); err != nil {
					return err
				}
			}
			if err := checkNames(ifs); err != nil {
				return err
			}
			jobs := make([]*attachJob, len(ifs))
			for i, name := range ifs {
				s, err := a.settingsFor(name, cmd.Flags())
				if err != nil {
					return err
				}
				jobs[i] = &attachJob{app: a, name: name, set: s, cmd: cmd}
			}
			if err := attachAll(jobs, upgrade, foreground); err != nil {
				return err
			}
			if foreground {
				return runForeground(a, jobs)
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

// attachJob is the attaching of one interface.
type attachJob struct {
	*app
	name  string
	set   *settings
	cmd   *cobra.Command
	fresh bool // we attached it, so a failure elsewhere takes it off again
}

// attachAll attaches every interface or none; with agents of their own unless
// they are to run here.
func attachAll(jobs []*attachJob, upgrade, foreground bool) (err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, j := range jobs {
			if j.fresh {
				err = errors.Join(err, loader.Detach(j.name, j.set.Options))
			}
		}
	}()
	for _, j := range jobs {
		do := j.attach
		if upgrade {
			do = j.upgrade
		}
		report, err := do()
		if err != nil {
			return err
		}
		if !foreground {
			if err := startAgent(j.app, j.name); err != nil {
				return err
			}
		}
		fmt.Fprintf(j.cmd.OutOrStdout(), "%s: %s\n", j.name, report)
	}
	return nil
}

// attach puts the data plane on the interface, or adopts one whose agent is gone.
func (j *attachJob) attach() (string, error) {
	att, err := loader.Attach(j.name, j.set.Options)
	if errors.Is(err, loader.ErrAttached) {
		if loader.AgentAlive(j.runDir, j.name) {
			return "", fmt.Errorf("%w: `softroce-xdp status %s` shows it; use --upgrade to replace the programs, or detach first", err, j.name)
		}
		return "was attached and had lost its agent: adopted, table and settings as they were", nil
	}
	if err != nil {
		return "", err
	}
	defer att.Close()
	j.fresh = true
	cfg, err := att.Config()
	if err != nil {
		return "", err
	}
	s := att.State
	return fmt.Sprintf("attached (XDP %s, egress %s, pacer %s, rate %sbit/s from %s)",
		s.XDPMode, s.Egress, s.Pacer, units.Rate(cfg.LinkRateBps), s.RateFrom), nil
}

// upgrade replaces the programs. The agent before runs until it is sure that this
// can be done.
func (j *attachJob) upgrade() (string, error) {
	att, err := loader.Open(j.name, j.set.Options)
	if err != nil {
		return "", err
	}
	from := att.State.Version
	cfg, err := att.Config()
	att.Close()
	if err != nil {
		return "", err
	}
	if cfg.AbiVersion != bpf.ABIVersion {
		return "", fmt.Errorf("%s: its tables have layout %d, those of this binary layout %d: detach and attach again", j.name, cfg.AbiVersion, bpf.ABIVersion)
	}
	had := loader.AgentAlive(j.runDir, j.name)
	if err := loader.StopAgent(j.runDir, j.name, 5*time.Second); err != nil {
		return "", err
	}
	if att, err = loader.Upgrade(j.name, j.set.Options); err != nil {
		if had { // the programs are still the old ones: they keep an agent
			err = errors.Join(err, startAgent(j.app, j.name))
		}
		return "", err
	}
	att.Close()
	return fmt.Sprintf("upgraded from %s to %s", from, version), nil
}
