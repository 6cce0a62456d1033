// SPDX-License-Identifier: Apache-2.0

package main

// `bench carddemo` shows the card without a card: the RTL in a simulator with the policy of
// `softroce-card attach`, and the model's memory, distribution and compute cores. It needs
// Verilator and no root, and leaves nothing behind. `make card-demo` installs and builds all it
// needs and runs it.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// cardDemoCommand is the subcommand of bench.
func cardDemoCommand() *cobra.Command {
	var bin string
	cmd := &cobra.Command{
		Use:   "carddemo",
		Short: "Show a simulated card: policy, memory, distribution, compute",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return compare.Failure(cardDemo(cmd.Context(), bin))
		},
	}
	cmd.Flags().StringVar(&bin, "bin", "bin/softroce-card", "the product's binary")
	return cmd
}

// cardDemoLimit ends a demonstration in which something hangs. Building the simulator takes most of it.
const cardDemoLimit = 5 * time.Minute

func cardDemo(ctx context.Context, bin string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, cardDemoLimit)
	defer cancel()
	p := cardProduct{}
	if p.bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if p.dir, err = os.MkdirTemp("", "softroce-card-demo-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.dir)) }()
	for _, part := range []func(context.Context, *cardProduct) error{showPolicy, showMemory, showDistribution, showTask} {
		if err := part(ctx, &p); err != nil {
			return err
		}
	}
	return nil
}

// cardProduct is the binary, as a user runs it.
type cardProduct struct{ bin, dir string }

func (p *cardProduct) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, p.bin, append([]string{"--run-dir", filepath.Join(p.dir, "run")}, args...)...)
}

// show runs a command and prints it with its output.
func (p *cardProduct) show(ctx context.Context, args ...string) error {
	fmt.Println("# softroce-xdp " + strings.Join(args, " "))
	out, err := p.command(ctx, args...).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		fmt.Print("  " + line)
	}
	if err != nil {
		return fmt.Errorf("softroce-xdp %s: %w", args[1], err)
	}
	return nil
}

func step(format string, args ...any) { fmt.Printf("\n--- "+format+"\n", args...) }
