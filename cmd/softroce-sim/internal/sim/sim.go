// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/cc/sim/schemes"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
)

func New() *cobra.Command {
	root := &cobra.Command{
		Short: "Simulate congestion control, packet by packet",
		Long: `softroce-sim runs scenarios on a simulated network: the policy that this NIC runs, and the
published ones to compare with. It needs no privileges and no interface. The same scenario
and seed give the same figures.

A scenario is a YAML file, or the name of one in the library that comes with the
program: ` + "`softroce-sim list`" + `. Start your own from ` + "`softroce-sim show NAME`" + `.`,
	}
	root.AddCommand(newSimRun(), newSimList(), newSimShow())
	return root
}

func newSimList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the scenarios of the library and the schemes",
		Args:  cli.Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := scenario.Library()
			if err != nil {
				return err
			}
			if asJSON {
				return cli.WriteJSON(cmd.OutOrStdout(), simListJSON(all))
			}
			lines := [][]string{{"SCENARIO", "GROUP", "TITLE"}}
			for _, s := range all {
				lines = append(lines, []string{s.Name, string(s.Group), s.Title})
			}
			table := [][]string{{"SCHEME", "WHAT IT IS"}}
			for _, e := range schemes.List() {
				table = append(table, []string{e.Name, e.About})
			}
			for _, l := range slices.Concat(cli.Align(lines), []string{""}, cli.Align(table)) {
				fmt.Fprintln(cmd.OutOrStdout(), l)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// simListing is `sim list --json`.
type simListing struct {
	Scenarios []simScenario `json:"scenarios"`
	Schemes   []simScheme   `json:"schemes"`
}

type simScenario struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Title string `json:"title"`
	About string `json:"about"`
}

type simScheme struct {
	Name       string     `json:"name"`
	About      string     `json:"about"`
	Parameters []simParam `json:"parameters"`
}

type simParam struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	About   string `json:"about"`
}

func simListJSON(all []*scenario.Scenario) (l simListing) {
	for _, s := range all {
		l.Scenarios = append(l.Scenarios, simScenario{s.Name, string(s.Group), s.Title, strings.TrimSpace(s.About)})
	}
	for _, e := range schemes.List() {
		x := simScheme{Name: e.Name, About: e.About}
		for _, p := range e.Params() {
			x.Parameters = append(x.Parameters, simParam{p[0], p[1], p[2]})
		}
		l.Schemes = append(l.Schemes, x)
	}
	return l
}

func newSimShow() *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Print a scenario of the library, or the parameters of a scheme",
		Example:           "  softroce-xdp sim show incast-8 > mine.yaml\n  softroce-xdp sim show swift",
		Args:              cli.Takes(1, 1),
		ValidArgsFunction: completeSim,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, e := range schemes.List() {
				if e.Name == args[0] {
					lines := [][]string{{"PARAMETER", "DEFAULT", "MEANING"}}
					for _, p := range e.Params() {
						lines = append(lines, p[:])
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n\n", e.Name, e.About)
					for _, l := range cli.Align(lines) {
						fmt.Fprintln(cmd.OutOrStdout(), l)
					}
					return nil
				}
			}
			text, err := scenario.Source(args[0])
			if err != nil {
				return cli.PlainUsage(err)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}

// completeSim completes names of scenarios in the shell.
func completeSim(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return scenario.Names(), cobra.ShellCompDirectiveDefault
}

// Misuse reports whether an error is one of the command line: parameters of the four-case policy that do not fit together.
func Misuse(err error) bool {
	var param *fourcase.ParamError
	return errors.As(err, &param)
}
