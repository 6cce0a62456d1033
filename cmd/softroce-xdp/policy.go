// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/params"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/view"
	"github.com/softroce/softroce-xdp/loader"
)

func newPolicy(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "policy",
		Short: "Show and change the parameters of the four-case policy and of priority",
	}, newPolicyShow(a), newPolicySet(a))
}

// param is one parameter in JSON: the register, and how it is written for people.
type param struct {
	Value string `json:"value"`
	Type  string `json:"type"`
	Text  string `json:"text"`
}

func newPolicyShow(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "show [IF]",
		Short:             "Show the policy's parameters",
		Args:              takes(0, 1),
		ValidArgsFunction: a.completeAttached,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.one(args)
			if err != nil {
				return err
			}
			att, err := loader.Open(name, a.options())
			if err != nil {
				return err
			}
			defer att.Close()
			cfg, err := att.Config()
			if err != nil {
				return err
			}
			return showPolicy(cmd, name, params.All, policyOf(&cfg), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// showPolicy prints the parameters of an interface, or of a card.
func showPolicy(cmd *cobra.Command, name string, list []params.Param, policy *params.Policy, asJSON bool) error {
	if asJSON {
		all := map[string]param{}
		for _, p := range list {
			all[p.Name] = param{p.Get(policy), p.Type, p.Text}
		}
		return writeJSON(cmd.OutOrStdout(), map[string]any{"interface": name, "policy": all})
	}
	lines := [][]string{{"PARAMETER", "VALUE", "MEANING"}}
	for _, p := range list {
		lines = append(lines, []string{p.Name, p.Get(policy), p.Text})
	}
	for _, l := range view.Align(lines) {
		fmt.Fprintln(cmd.OutOrStdout(), l)
	}
	return nil
}

func newPolicySet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set [IF] --PARAMETER VALUE...",
		Short: "Change parameters of a live policy",
		Long: `Set changes parameters from the next decision on; those that are not given stay.
It lasts until detach: put what shall stay under policy: in the configuration file.
Rates are written as 100M or 2.5G, times as 500us, shares as 0.4 or 40%.`,
		Example:           "  softroce-xdp policy set eth0 --mode literal\n  softroce-xdp policy set --target 300us --max-cut 30%",
		Args:              takes(0, 1),
		ValidArgsFunction: a.completeAttached,
		RunE: func(cmd *cobra.Command, args []string) error {
			changed, err := changedParams(cmd, "policy show")
			if err != nil {
				return err
			}
			name, err := a.one(args)
			if err != nil {
				return err
			}
			return a.setPolicy(cmd, name, changed)
		},
	}
	for _, p := range params.All {
		cmd.Flags().Var(&paramVar{param: p}, p.Name, p.Text)
	}
	return cmd
}

// changedParams returns the parameters that flags name, at least one. show is the command that
// lists them.
func changedParams(cmd *cobra.Command, show string) (map[string]string, error) {
	changed := map[string]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, err := params.Named(f.Name); err == nil {
			changed[f.Name] = f.Value.String()
		}
	})
	if len(changed) == 0 {
		return nil, usagef("name at least one parameter to change (`softroce-xdp %s` lists them)", show)
	}
	return changed, nil
}

// setPolicy writes the parameters if they fit together.
func (a *app) setPolicy(cmd *cobra.Command, name string, changed map[string]string) error {
	att, err := loader.Open(name, a.options())
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
	report, err := changeParams(&next, changed)
	if err != nil {
		return err
	}
	if _, ok := changed["priority-capacity"]; ok {
		if err := minimumsFit(name, att.State.NodeFile, live.Node, next.Priority.Limit(live.LinkRateBps)); err != nil {
			return usagef("nothing was changed: %w", err)
		}
	}
	writePolicy(live.Config, &next)
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", name, strings.Join(report, ", "))
	return nil
}

// changeParams sets parameters if they fit together. It returns what has changed, for people.
func changeParams(next *params.Policy, changed map[string]string) (report []string, err error) {
	for _, p := range params.All {
		value, ok := changed[p.Name]
		if !ok {
			continue
		}
		was := p.Get(next)
		if err := p.Set(next, value); err != nil {
			return nil, usageError{error: err}
		}
		report = append(report, fmt.Sprintf("%s %s (was %s)", p.Name, p.Get(next), was))
	}
	if err := next.Validate(); err != nil {
		return nil, usagef("the parameters do not fit together, nothing was changed: %w", err)
	}
	return report, nil
}

// policyOf copies the parameters of all policies.
func policyOf(cfg *bpf.Config) *params.Policy {
	prio, _ := bpf.PriorityAs[priority.Params, priority.State](cfg)
	return &params.Policy{Params: *bpf.ParamsAs[fourcase.Params](&cfg.Policy), Priority: *prio, WindowOff: cfg.WindowOff != 0}
}

// paramVar checks the form of one parameter on the command line.
type paramVar struct {
	param params.Param
	value string
}

func (v *paramVar) String() string { return v.value }
func (v *paramVar) Type() string   { return v.param.Type }
func (v *paramVar) Set(s string) error {
	v.value = s
	return v.param.Check(s)
}
