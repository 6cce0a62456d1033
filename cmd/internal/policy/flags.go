// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
)

// listVar is a list of policy parameters, written name=value.
type listVar struct{ dst *[]string }

// ListVar makes a flag of a list of policy parameters.
func ListVar(dst *[]string) pflag.Value { return listVar{dst} }

func (p listVar) Type() string       { return "name=value" }
func (p listVar) String() string     { return strings.Join(*p.dst, ",") }
func (p listVar) GetSlice() []string { return *p.dst }
func (p listVar) Set(s string) error {
	if err := SetNamed(&Policy{}, s); err != nil {
		return err
	}
	*p.dst = append(*p.dst, s)
	return nil
}

// Append and Replace make it a pflag.SliceValue.
func (p listVar) Append(s string) error { return p.Set(s) }
func (p listVar) Replace(all []string) error {
	*p.dst = nil
	for _, s := range all {
		if err := p.Set(s); err != nil {
			return err
		}
	}
	return nil
}

// SetNamed sets a parameter that is written name=value.
func SetNamed(dst *Policy, s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return fmt.Errorf("%q: write name=value, for example target=500us", s)
	}
	param, err := Named(strings.TrimSpace(name))
	if err != nil {
		return err
	}
	return param.Set(dst, strings.TrimSpace(value))
}

// FlagVar checks the form of one parameter on the command line.
type FlagVar struct {
	Param Param
	value string
}

func (v *FlagVar) String() string { return v.value }
func (v *FlagVar) Type() string   { return v.Param.Type }
func (v *FlagVar) Set(s string) error {
	v.value = s
	return v.Param.Check(s)
}

// shownParam is one parameter in JSON: the register, and how it is written for people.
type shownParam struct {
	Value string `json:"value"`
	Type  string `json:"type"`
	Text  string `json:"text"`
}

// Show prints the parameters of an interface, or of a card.
func Show(cmd *cobra.Command, name string, list []Param, policy *Policy, asJSON bool) error {
	if asJSON {
		all := map[string]shownParam{}
		for _, p := range list {
			all[p.Name] = shownParam{p.Get(policy), p.Type, p.Text}
		}
		return cli.WriteJSON(cmd.OutOrStdout(), map[string]any{"interface": name, "policy": all})
	}
	lines := [][]string{{"PARAMETER", "VALUE", "MEANING"}}
	for _, p := range list {
		lines = append(lines, []string{p.Name, p.Get(policy), p.Text})
	}
	for _, l := range cli.Align(lines) {
		fmt.Fprintln(cmd.OutOrStdout(), l)
	}
	return nil
}

// Changed returns the parameters that flags name, at least one. show is the command that
// lists them.
func Changed(cmd *cobra.Command, show string) (map[string]string, error) {
	changed := map[string]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, err := Named(f.Name); err == nil {
			changed[f.Name] = f.Value.String()
		}
	})
	if len(changed) == 0 {
		return nil, cli.Usagef("name at least one parameter to change (`%s` lists them)", show)
	}
	return changed, nil
}

// Change sets parameters if they fit together. It returns what has changed, for people.
func Change(next *Policy, changed map[string]string) (report []string, err error) {
	for _, p := range All {
		value, ok := changed[p.Name]
		if !ok {
			continue
		}
		was := p.Get(next)
		if err := p.Set(next, value); err != nil {
			return nil, cli.Usage(err)
		}
		report = append(report, fmt.Sprintf("%s %s (was %s)", p.Name, p.Get(next), was))
	}
	if err := next.Validate(); err != nil {
		return nil, cli.Usagef("the parameters do not fit together, nothing was changed: %w", err)
	}
	return report, nil
}

// Misuse reports whether an error is one of the command line: parameters that do not fit together.
func Misuse(err error) bool {
	var param *fourcase.ParamError
	return errors.As(err, &param)
}
