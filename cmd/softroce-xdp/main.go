// SPDX-License-Identifier: Apache-2.0

// Command softroce-xdp turns a Linux interface into a RoCEv2 NIC with congestion
// control per destination.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/loader"
)

// version is set by the Makefile (git describe).
var version = "dev"

// Exit codes.
const (
	exitOK     = 0
	exitUsage  = 1
	exitSystem = 2
)

// systemError marks what went wrong after the command line was understood.
type systemError struct{ error }

func (e systemError) Unwrap() error { return e.error }

// global holds the flags that every command has.
var global struct {
	pinRoot, runDir string
}

func main() {
	root := newRoot()
	err := root.Execute()
	if err == nil {
		os.Exit(exitOK)
	}
	fmt.Fprintf(os.Stderr, "softroce-xdp: %v\n", err)
	var sys systemError
	if errors.As(err, &sys) {
		os.Exit(exitSystem)
	}
	os.Exit(exitUsage)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "softroce-xdp",
		Short:         "A RoCEv2 NIC in software, with congestion control per destination",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	f := root.PersistentFlags()
	f.StringVar(&global.pinRoot, "pin-root", loader.DefaultPinRoot, "directory of the pinned maps, on a bpf file system")
	f.StringVar(&global.runDir, "run-dir", loader.DefaultRunDir, "directory of state files and logs")
	root.AddCommand(newAttach(), newDetach(), newTable(), newStats())
	return root
}

// openOptions are those that find an attachment again.
func openOptions() loader.Options {
	return loader.Options{PinRoot: global.pinRoot, RunDir: global.runDir, Version: version}
}

// system makes a RunE of a function whose errors are the system's, not the user's.
func system(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := f(cmd, args); err != nil {
			return systemError{err}
		}
		return nil
	}
}
