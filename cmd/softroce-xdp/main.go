// SPDX-License-Identifier: Apache-2.0

// Command softroce-xdp turns a Linux interface into a RoCEv2 NIC with congestion
// control per destination.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/loader"
)

// version is set by the Makefile (git describe).
var version = "dev"

// Exit codes.
const (
	exitOK     = 0
	exitUsage  = 1 // the command line or the configuration file is wrong
	exitSystem = 2 // what was asked for could not be done
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run executes one command line and returns the exit code.
func run(args []string, out, errOut io.Writer) int {
	a := &app{}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(errOut, "softroce-xdp: %v\n", err)
	var usage usageError
	if a.parsed && !errors.As(err, &usage) {
		if h := hint(err); h != "" {
			fmt.Fprintf(errOut, "%s\n", h)
		}
		return exitSystem
	}
	if !usage.plain {
		fmt.Fprintf(errOut, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return exitUsage
}

// usageError is what the user can put right on the command line or, plain, in a
// file: no use in telling them of --help then.
type usageError struct {
	error
	plain bool
}

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return usageError{error: fmt.Errorf(format, args...)}
}

// hint says what to do about errors that come from deep below.
func hint(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return "This needs root: run it with sudo."
	case errors.Is(err, loader.ErrNotAttached):
		return "`softroce-xdp status` shows what is attached."
	}
	return ""
}

// group makes a command that only holds others; it refuses names it does not have.
func group(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unknown command %q for %q", args[0], cmd.CommandPath())
		}
		return cmd.Help()
	}
	c.AddCommand(subs...)
	return c
}
