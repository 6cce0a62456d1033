// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/policy"
	"github.com/softroce/softroce-xdp/loader"
)

func newPolicy(a *attacher) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "policy",
		Short: "Show and change the parameters of the four-case policy and of priority",
	}, newPolicyShow(a), newPolicySet(a))
}

func newPolicyShow(a *attacher) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "show [IF]",
		Short:             "Show the policy's parameters",
		Args:              cli.Takes(0, 1),
		ValidArgsFunction: a.CompleteAttached,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.One(args)
			if err != nil {
				return err
			}
			att, err := loader.Open(name, a.Options())
			if err != nil {
				return err
			}
			defer att.Close()
			cfg, err := att.Config()
			if err != nil {
				return err
			}
			return policy.Show(cmd, name, policy.All, policyOf(&cfg), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newPolicySet(a *attacher) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set [IF] --PARAMETER VALUE...",
		Short: "Change parameters of a live policy",
		Long: `Set changes parameters from the next decision on; those that are not given stay.
It lasts until detach: put what shall stay under policy: in the configuration file.
Rates are written as 100M or 2.5G, times as 500us, shares as 0.4 or 40%.`,
		Example:           "  softroce-xdp policy set eth0 --mode literal\n  softroce-xdp policy set --target 300us --max-cut 30%",
		Args:              cli.Takes(0, 1),
		ValidArgsFunction: a.CompleteAttached,
		RunE: func(cmd *cobra.Command, args []string) error {
			changed, err := policy.Changed(cmd, "softroce-xdp policy show")
			if err != nil {
				return err
			}
			name, err := a.One(args)
			if err != nil {
				return err
			}
			return a.setPolicy(cmd, name, changed)
		},
	}
	for _, p := range policy.All {
		cmd.Flags().Var(&policy.FlagVar{Param: p}, p.Name, p.Text)
	}
	return cmd
}

// setPolicy writes the parameters if they fit together.
func (a *attacher) setPolicy(cmd *cobra.Command, name string, changed map[string]string) error {
	att, err := loader.Open(name, a.Options())
	if err != nil {
		return err
	}
	defer att.Close()
	live, err := att.LiveConfig()
	if err != nil {
		return err
	}
	defer live.Close()
	next := *policyOf(live.Config)
	report, err := policy.Change(&next, changed)
	if err != nil {
		return err
	}
	if _, ok := changed["priority-capacity"]; ok {
		if err := minimumsFit(name, att.State.NodeFile, live.Node, next.Priority.Limit(live.LinkRateBps)); err != nil {
			return cli.Usagef("nothing was changed: %w", err)
		}
	}
	writePolicy(live.Config, &next)
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", name, strings.Join(report, ", "))
	return nil
}

// policyOf copies the parameters of all policies.
func policyOf(cfg *bpf.Config) *policy.Policy {
	prio, _ := bpf.PriorityAs[priority.Params, priority.State](cfg)
	return &policy.Policy{Params: *bpf.ParamsAs[fourcase.Params](&cfg.Policy), Priority: *prio, WindowOff: cfg.WindowOff != 0}
}
