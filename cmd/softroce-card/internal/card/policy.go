// SPDX-License-Identifier: Apache-2.0

package card

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/policy"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
)

// cardParams are the parameters that a card has, in block fourcase.
var cardParams = slices.DeleteFunc(slices.Clone(policy.All), func(p policy.Param) bool {
	return p.Register == "window_off" || strings.HasPrefix(p.Register, "priority.")
})

func newPolicy(a *app) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "policy",
		Short: "Show and change the parameters of the four-case policy of a card",
	}, newPolicyShow(a), newPolicySet(a))
}

func newPolicyShow(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "show [DEV]",
		Short:             "Show the policy's parameters",
		Args:              cli.Takes(0, 1),
		ValidArgsFunction: a.completeCards,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := a.oneCard(args)
			if err != nil {
				return err
			}
			return a.withTable(id, func(_ *hwoffload.Card, t *driver.Table) error {
				p, err := t.Params()
				if err != nil {
					return err
				}
				return policy.Show(cmd, id.name, cardParams, cardPolicyOf(p), asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newPolicySet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set [DEV] --PARAMETER VALUE...",
		Short: "Change parameters of the policy",
		Long: `Set changes parameters in the registers of the card, from the next decision on; those
that are not given stay. They last until the card is reset. Rates are written as 100M or
2.5G, times as 500us, shares as 0.4 or 40%.`,
		Example:           "  softroce-card policy set 0000:03:00.0 --mode literal",
		Args:              cli.Takes(0, 1),
		ValidArgsFunction: a.completeCards,
		RunE: func(cmd *cobra.Command, args []string) error {
			changed, err := policy.Changed(cmd, "softroce-card policy show")
			if err != nil {
				return err
			}
			id, err := a.oneCard(args)
			if err != nil {
				return err
			}
			return a.withTable(id, func(_ *hwoffload.Card, t *driver.Table) error {
				report, err := changeCardPolicy(t, changed)
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", id.name, strings.Join(report, ", "))
				}
				return err
			})
		},
	}
	for _, p := range cardParams {
		cmd.Flags().Var(&policy.FlagVar{Param: p}, p.Name, p.Text)
	}
	return cmd
}

// changeCardPolicy changes parameters of a card if they fit together. It returns what has
// changed, for people.
func changeCardPolicy(t *driver.Table, changed map[string]string) ([]string, error) {
	p, err := t.Params()
	if err != nil {
		return nil, err
	}
	next := cardPolicyOf(p)
	report, err := policy.Change(next, changed)
	if err != nil {
		return nil, err
	}
	return report, t.SetParams(*bpf.ParamsFrom(&next.Params))
}

func cardPolicyOf(p bpf.PolicyParams) *policy.Policy {
	return &policy.Policy{Params: *bpf.ParamsAs[fourcase.Params](&p)}
}

// cardPolicyFlags reads parameters that are written name=value; of one name the last applies.
func cardPolicyFlags(list []string) (map[string]string, error) {
	changed := map[string]string{}
	for _, s := range list {
		name, value, _ := strings.Cut(s, "=") // policyVar has checked it
		name = strings.TrimSpace(name)
		if !slices.ContainsFunc(cardParams, func(p policy.Param) bool { return p.Name == name }) {
			return nil, cli.Usagef("a card has no parameter %s: `softroce-card policy show` lists those that it has", name)
		}
		changed[name] = strings.TrimSpace(value)
	}
	return changed, nil
}
