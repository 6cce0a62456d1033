// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/softroce/softroce-xdp/internal/texts"
)

// Group makes a command of subcommands. It refuses unknown names.
func Group(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return cmd.Help()
	}
	c.AddCommand(subs...)
	return c
}

// unknownCommand returns an error with the command that was probably meant.
func unknownCommand(c *cobra.Command, name string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	err := fmt.Errorf("unknown command %q for %q", name, c.CommandPath())
	if near := texts.Nearest(name, names); near != "" {
		err = fmt.Errorf("%w: did you mean %s?", err, near)
	}
	return Usage(err)
}

// Takes checks the number of arguments. The errors name them as the command's Use does.
func Takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		_, names, _ := strings.Cut(cmd.Use, " ")
		switch {
		case len(args) < least:
			return Usagef("%s is missing: %s %s", names, cmd.CommandPath(), names)
		case len(args) > most && most == 0:
			return Usagef("%q: %s takes no arguments", args[0], cmd.CommandPath())
		case len(args) > most:
			return Usagef("%q is one argument too many: %s %s", args[most], cmd.CommandPath(), names)
		}
		return nil
	}
}

// Many is the maximum of arguments of a command without a limit.
const Many = 1 << 20

// flagError improves errors of the flag library: for its own types they name functions of Go,
// and for unknown flags they suggest none. Errors of the types in values.go stay.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var name *pflag.NotExistError
	switch {
	case errors.As(err, &value) && value.GetFlag().Value.Type() == "bool":
		flag := value.GetFlag().Name
		return Usagef("--%s: %q is neither true nor false: write --%s alone, or --%[1]s=false", flag, value.GetValue(), flag)
	case errors.As(err, &name) && name.GetSpecifiedShortnames() == "":
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near := texts.Nearest(name.GetSpecifiedName(), names); near != "" {
			return Usagef("%w: did you mean --%s?", err, near)
		}
	}
	return err
}

// newHelp makes the command help. That of the library shows the root's help for unknown names
// and exits with 0.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]...",
		Short: "Show the help of a command",
		// No configuration file is needed for this.
		PersistentPreRun: func(*cobra.Command, []string) {},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			c, err := commandOf(cmd.Root(), args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, sub := range c.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := commandOf(cmd.Root(), args)
			if err != nil {
				return err
			}
			c.InitDefaultHelpFlag()
			c.InitDefaultVersionFlag()
			return c.Help()
		},
	}
}

// commandOf finds a command by the names that lead to it.
func commandOf(c *cobra.Command, names []string) (*cobra.Command, error) {
next:
	for _, name := range names {
		for _, sub := range c.Commands() {
			if sub.Name() == name {
				c = sub
				continue next
			}
		}
		return nil, unknownCommand(c, name)
	}
	return c, nil
}

// ownHelp adds the commands help and completion to the root, with the same errors as the other
// commands. The root's output has to be set before.
func ownHelp(root *cobra.Command) {
	root.SetHelpCommand(newHelp())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.SetFlagErrorFunc(flagError)
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.PersistentPreRun = func(*cobra.Command, []string) {}
		Group(c)
		for _, shell := range c.Commands() {
			shell.Args = Takes(0, 0)
		}
	}
}

// exitHeading is above the exit codes in the root's help.
const exitHeading = "\n\nExit codes:"

// exitHelp returns the exit codes and their meanings, one per line.
func exitHelp() string {
	var b strings.Builder
	b.WriteString(exitHeading)
	for _, c := range exitCodes {
		fmt.Fprintf(&b, "\n  %d  %s", c.Number, c.Meaning)
	}
	return b.String()
}
