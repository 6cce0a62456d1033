// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload/rtl"
)

// simulateCommand simulates the RTL of the card until it is interrupted. Drivers connect to the
// socket that it makes, for example with `softroce-card status unix:/run/card.sock`. The clock
// of the card follows CLOCK_MONOTONIC.
func simulateCommand(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errUsage{}
	}
	path := args[0]
	sources, err := rtl.Sources()
	if err != nil {
		return err
	}
	program, err := rtl.Build(ctx, sources)
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
