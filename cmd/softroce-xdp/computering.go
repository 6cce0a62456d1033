// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/perf"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/units"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/ring"
	"github.com/softroce/softroce-xdp/rocev2/task"
)

// ringFlags are those of compute allreduce.
type ringFlags struct {
	engineFlags
	coreFlags
	listen, next, bytes string
	rank, nodes         uint32
	rounds              uint32
	inNIC               bool
	timeout             time.Duration
}

func newComputeAllReduce(a *app) *cobra.Command {
	r := ringFlags{nodes: 2, rounds: 3, timeout: time.Minute}
	cmd := &cobra.Command{
		Use:   "allreduce",
		Short: "Sum vectors of several hosts, in a ring",
		Long: `Allreduce is run on each host of a ring. Each has a vector of 64-bit integers; afterwards
each has the sum of all, which is checked. With --in-nic, the sums are tasks that the
NIC of the next host executes; otherwise its program adds.

  host1# softroce-xdp compute allreduce --rank 0 --nodes 2 --next host2
  host2# softroce-xdp compute allreduce --rank 1 --nodes 2 --next host1

The exit code is 3 if the sum is wrong.`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(a, cmd) },
	}
	r.engineFlags.flags(a, cmd)
	r.coreFlags.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&r.listen, "listen", ":7177", "[ADDRESS]:PORT, where the host before connects")
	f.StringVar(&r.next, "next", "", "HOST[:PORT] of the next host")
	f.Var(countVar{&r.rank, 0, 4095}, "rank", "number of this host, from 0 on")
	f.Var(countVar{&r.nodes, 2, 4096}, "nodes", "hosts in the ring")
	f.StringVar(&r.bytes, "bytes", "16M", "length of the vector")
	f.Var(countVar{&r.rounds, 1, 1 << 20}, "rounds", "sums, one after the other")
	f.BoolVar(&r.inNIC, "in-nic", false, "have the NIC of the next host add; all hosts choose the same")
	f.VarP(spanVar{&r.timeout, time.Millisecond, 24 * time.Hour}, "timeout", "W", "how long to wait for the other hosts")
	return cmd
}

func (r *ringFlags) run(a *app, cmd *cobra.Command) error {
	length, err := units.ParseBytes(r.bytes)
	switch {
	case err != nil:
		return usageError{fmt.Errorf("--bytes: %w", err), false}
	case length > 1<<31 || length%8 != 0 || length/8 < uint64(r.nodes):
		return usagef("--bytes %s: choose a multiple of 8, at least 8 for each host and at most 2G", r.bytes)
	case r.next == "":
		return usagef("--next is missing: name the next host")
	case r.rank >= r.nodes:
		return usagef("--rank %d of %d hosts: choose 0 to %d", r.rank, r.nodes, r.nodes-1)
	}
	next, err := perf.Address(r.next, 7177)
	if err != nil {
		return usageError{fmt.Errorf("--next: %w", err), false}
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	dev, _, err := r.openConnector(ctx, a)
	if err != nil {
		return err
	}
	defer dev.Close()
	var e *task.Executor
	if r.inNIC {
		if e, err = r.executor(); err != nil {
			return err
		}
		defer e.Close(context.Background())
	}
	vector, err := rdma.Alloc(dev, int(length))
	if err != nil {
		return err
	}
	joining, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	node, err := ring.Join(joining, dev, ring.Config{
		Listen: r.listen, Next: next, Rank: int(r.rank), Nodes: int(r.nodes), Vector: vector, Type: task.Uint64, Executor: e,
	})
	if err != nil {
		return err
	}
	err = r.sums(ctx, cmd, node, vector)
	return errors.Join(err, node.Close())
}

// sums makes the sums, and checks and prints each.
func (r *ringFlags) sums(ctx context.Context, cmd *cobra.Command, node *ring.Ring, vector []byte) error {
	n := uint64(r.nodes)
	for round := range uint64(r.rounds) {
		for i := 0; i < len(vector); i += 8 {
			binary.LittleEndian.PutUint64(vector[i:], uint64(r.rank)+uint64(i)*(round+1))
		}
		began := time.Now()
		if err := node.AllReduce(ctx); err != nil {
			return err
		}
		took := time.Since(began)
		for i := 0; i < len(vector); i += 8 {
			want := n*(n-1)/2 + n*uint64(i)*(round+1)
			if got := binary.LittleEndian.Uint64(vector[i:]); got != want {
				return noError{fmt.Errorf("sum %d: element %d is %d, and should be %d", round+1, i/8, got, want)}
			}
		}
		moved := float64(len(vector)) * 2 * float64(n-1) / float64(n) * 8
		fmt.Fprintf(cmd.OutOrStdout(), "sum %d: %s of %d hosts in %s, %sbit/s sent\n", round+1, units.Bytes(uint64(len(vector))), n,
			units.Nanos(took.Nanoseconds()), units.Rate(uint64(moved/took.Seconds())))
	}
	return nil
}
