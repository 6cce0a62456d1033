// SPDX-License-Identifier: Apache-2.0

// Command softroce-xdp turns a Linux interface into a RoCEv2 NIC with congestion
// control per destination.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/printable"
)

// version is set by the Makefile (git describe).
var version = "dev"

func main() {
	poolMapProcess()
	// SIGPIPE is handled: a closed output pipe must not end an attach between two interfaces,
	// or an engine. The write returns an error instead.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit code.
func run(args []string, stdout, errOut io.Writer) int {
	a := &app{}
	out := &checkedOutput{Writer: stdout}
	errOut = checkedErrors{printable.Writer{W: errOut}}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	ownHelp(root)
	cmd, err := root.ExecuteC()
	if out.err != nil {
		// A pipe that its reader has closed needs no message.
		if !errors.Is(out.err, unix.EPIPE) {
			fmt.Fprintf(errOut, "softroce-xdp: %v\n", out.err)
		}
		return exitSystem
	}
	code := exitOf(err, a.parsed)
	if code == exitOK {
		return code
	}
	fmt.Fprintf(errOut, "softroce-xdp: %v\n", err)
	var usage usageError
	switch {
	case code == exitUsage && (!a.parsed || errors.As(err, &usage)) && !usage.plain:
		fmt.Fprintf(errOut, "Run '%s --help' for usage.\n", cmd.CommandPath())
	case code == exitSystem:
		if h := hint(err); h != "" {
			fmt.Fprintf(errOut, "%s\n", h)
		}
	}
	return code
}
