// SPDX-License-Identifier: Apache-2.0

// Command rtltool works on the RTL of the card: it reports what the modules take of an FPGA,
// simulates the card for drivers, and prints vector files for test benches. Internal to this
// project.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

const usage = `usage: rtltool report [-dir FOLDER] [-out FILE] [-all]
       rtltool simulate SOCKET, for example rtltool simulate /run/card.sock
       rtltool hex FILE.vec > FILE.hex
`

// commands are the subcommands by their names.
var commands = map[string]func(ctx context.Context, args []string) error{"report": reportCommand, "simulate": simulateCommand, "hex": hexCommand}

// errUsage is returned by a subcommand whose arguments are wrong.
type errUsage struct{}

func (errUsage) Error() string { return "wrong arguments" }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

// run runs a subcommand and returns the exit status.
func run(ctx context.Context, args []string) int {
	var command func(ctx context.Context, args []string) error
	if len(args) > 0 {
		command = commands[args[0]]
	}
	if command == nil {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	switch err := command(ctx, args[1:]); err {
	case nil:
		return 0
	case errUsage{}:
		fmt.Fprint(os.Stderr, usage)
		return 2
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", args[0], err)
		return 1
	}
}
