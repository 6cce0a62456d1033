// SPDX-License-Identifier: Apache-2.0

// Package sim has the commands of softroce-sim: it runs scenarios of package cc/sim and prints their figures.
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

// New returns the root command of softroce-sim.
func New() *cobra.Command {
	root := &cobra.Command{
		Short: "Simulate congestion control, packet by packet",
		Long: `softroce-sim runs scenarios on a simulated network: the policy that this NIC runs, and the
published ones to compare with. It needs no privileges and no interface. The same scenario
and seed give the same figures.

A scenario is a YAML file, or the name of one in the library that comes with the
program: ` + "`softroce-sim list`" + `. Start your own from ` + "`softroce-sim show NAME`" + `.`,
	}
	root.AddCommand(newRun(), newList(), newShow())
	return root
}

func newList() *cobra.Command {
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
				return cli.WriteJSON(cmd.OutOrStdout(), listJSON(all))
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

// listing is `list --json`.
type listing struct {
	Scenarios []listedScenario `json:"scenarios"`
	Schemes   []listedScheme   `json:"schemes"`
}

type listedScenario struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Title string `json:"title"`
	About string `json:"about"`
}

type listedScheme struct {
	Name       string        `json:"name"`
	About      string        `json:"about"`
	Parameters []listedParam `json:"parameters"`
}

type listedParam struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	About   string `json:"about"`
}

func listJSON(all []*scenario.Scenario) (l listing) {
	for _, s := range all {
		l.Scenarios = append(l.Scenarios, listedScenario{s.Name, string(s.Group), s.Title, strings.TrimSpace(s.About)})
	}
	for _, e := range schemes.List() {
		x := listedScheme{Name: e.Name, About: e.About}
		for _, p := range e.Params() {
			x.Parameters = append(x.Parameters, listedParam{p[0], p[1], p[2]})
		}
		l.Schemes = append(l.Schemes, x)
	}
	return l
}

func newShow() *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Print a scenario of the library, or the parameters of a scheme",
		Example:           "  softroce-sim show incast-8 > mine.yaml\n  softroce-sim show swift",
		Args:              cli.Takes(1, 1),
		ValidArgsFunction: complete,
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

// complete completes names of scenarios in the shell.
func complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return scenario.Names(), cobra.ShellCompDirectiveDefault
}

// Misuse reports whether an error is one of the command line: parameters of the four-case policy that do not fit together.
func Misuse(err error) bool {
	var param *fourcase.ParamError
	return errors.As(err, &param)
}
