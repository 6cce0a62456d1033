// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/mempool/vmm/exercise"
)

// poolSeed is that of the work of all rows.
const poolSeed = 1

// PoolWorkerCommand is what bench starts to do the work on plain memory.
func PoolWorkerCommand() *cobra.Command {
	var megs int64
	var accesses int
	var group string
	cmd := &cobra.Command{
		Use: "pool-worker", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if group != "" {
				if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0); err != nil {
					return err
				}
			}
			memory, err := unix.Mmap(-1, 0, int(megs<<20), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
			if err != nil {
				return fmt.Errorf("%d MiB of memory: %w", megs, err)
			}
			_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE) // as the memory of a map
			r, err := exercise.Run(cmd.Context(), memory, exercise.Config{Seed: poolSeed, Accesses: accesses}, func(exercise.Step) error { return nil })
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		},
	}
	f := cmd.Flags()
	f.Int64Var(&megs, "megabytes", 64, "memory")
	f.IntVar(&accesses, "accesses", 1000, "random accesses")
	f.StringVar(&group, "cgroup", "", "directory of the memory cgroup to enter")
	return cmd
}

// worker runs PoolWorkerCommand.
func (b *poolBench) worker(ctx context.Context, args ...string) (r exercise.Result, err error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"pool-worker", "--megabytes", fmt.Sprint(b.megs), "--accesses", fmt.Sprint(b.accesses)}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

func (b *poolBench) local(ctx context.Context) (poolRow, error) {
	r, err := b.worker(ctx)
	return poolRow{name: "all local", local: b.megs, Result: r}, err
}

// swapped does the work in a memory cgroup whose limit is the local memory, with a swap file.
func (b *poolBench) swapped(ctx context.Context, local int64) (x poolRow, err error) {
	file := filepath.Join(b.swapDir, fmt.Sprintf("pool-bench-%d.swap", os.Getpid()))
	off, err := swapOn(ctx, file, b.megs<<20)
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, off()) }()
	g, err := newGroup((local + programMegs) << 20)
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, g.remove()) }()
	r, err := b.worker(ctx, "--cgroup", g.dir)
	return poolRow{name: "swap", local: local, Result: r}, err
}

// programMegs is what the program needs besides its memory, in MiB.
const programMegs = 16
