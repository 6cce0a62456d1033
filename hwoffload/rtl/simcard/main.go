// SPDX-License-Identifier: Apache-2.0

// Command simcard simulates the RTL of the card until it is interrupted. Drivers connect to the
// socket that it makes, for example with `softroce-card status unix:/run/card.sock`. The
// clock of the card follows CLOCK_MONOTONIC.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/hwoffload/rtl/sim"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: simcard SOCKET, for example simcard /run/card.sock")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "simcard:", err)
		os.Exit(1)
	}
}

// run builds the simulator, and runs it until ctx ends.
func run(ctx context.Context, path string) error {
	sources, err := sim.Sources()
	if err != nil {
		return err
	}
	program, err := sim.Build(ctx, sources)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	cmd := exec.CommandContext(ctx, program, path, "wall")
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	if err := cmd.Run(); !errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return nil
}
