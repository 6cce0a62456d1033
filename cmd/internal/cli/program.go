// SPDX-License-Identifier: Apache-2.0

// Package cli is what all programs of this project share: the runner of a command line with its exit codes, help, man
// pages and version, the types of flags, quantities as people write them, logs, tables and screens.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/texts"
)

// Version is set by the Makefile (git describe).
var Version = "dev"

// Program is one of the commands of this project, for example softroce-xdp.
type Program struct {
	Name        string
	TableLayout uint32 // version of the BPF table that it reads or writes; 0 = none

	// Root returns the root command with its flags and subcommands, each time a new one.
	Root func() *cobra.Command
	// Misuse reports whether an error of another package is one of the command line. nil: none is.
	Misuse func(error) bool
	// Hint returns what to do about an error whose text does not say it; "" = nothing is known. nil: for no error.
	Hint func(error) string
}

// Main executes the command line of this process, and exits.
func (p *Program) Main() {
	// SIGPIPE is handled: a closed output pipe must not end an attach between two interfaces,
	// or an engine. The write returns an error instead.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	os.Exit(p.Run(os.Args[1:], os.Stdout, os.Stderr))
}

// Run executes one command line and returns the exit code.
func (p *Program) Run(args []string, stdout, errOut io.Writer) int {
	out := &checkedOutput{Writer: stdout}
	errOut = checkedErrors{texts.PrintableWriter{W: errOut}}
	root := p.complete()
	parsed := false // the command line was accepted: later errors have exitSystem by default
	before := root.PersistentPreRunE
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if before != nil {
			if err := before(cmd, args); err != nil {
				return err
			}
		}
		parsed = true
		return nil
	}
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	ownHelp(root)
	cmd, err := root.ExecuteC()
	if out.err != nil {
		// A pipe that its reader has closed needs no message.
		if !errors.Is(out.err, unix.EPIPE) {
			fmt.Fprintf(errOut, "%s: %v\n", p.Name, out.err)
		}
		return exitSystem
	}
	code := p.exitOf(err, parsed)
	if code == ExitOK {
		return code
	}
	fmt.Fprintf(errOut, "%s: %v\n", p.Name, err)
	var usage usageError
	switch {
	case code == exitUsage && (!parsed || errors.As(err, &usage)) && !usage.plain:
		fmt.Fprintf(errOut, "Run '%s --help' for usage.\n", cmd.CommandPath())
	case code == exitSystem:
		if h := p.hintOf(err); h != "" {
			fmt.Fprintf(errOut, "%s\n", h)
		}
	}
	return code
}

// complete returns the root command with what all programs have.
func (p *Program) complete() *cobra.Command {
	root := p.Root()
	root.Use = p.Name
	root.Long += exitHelp()
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = Version
	root.SetVersionTemplate(p.Name + " {{.Version}}\n")
	return Group(root, p.newVersion(), p.newMan())
}

// Command returns the root command with all that it has on the command line, for tests.
func (p *Program) Command() *cobra.Command {
	root := p.complete()
	ownHelp(root)
	return root
}

// Interruptible ends the context with the first SIGINT or SIGTERM. The second one ends the
// process at once.
func Interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, unix.SIGINT, unix.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
