// SPDX-License-Identifier: Apache-2.0

// Command allreduce sums vectors of several hosts, in a ring. It is run on each host. Each has a vector of 64-bit
// integers; afterwards each has the sum of all, which is checked. With -in-nic, the sums are tasks that the NIC of the
// next host executes; otherwise its program adds.
//
//	host1# softroce-xdp attach --nic eth0
//	host1# go run ./examples/allreduce -dev eth0 -rank 0 -nodes 2 -next host2:7177
//	host2# softroce-xdp attach --nic eth0
//	host2# go run ./examples/allreduce -dev eth0 -rank 1 -nodes 2 -next host1:7177
//
// The exit code is 1 for a wrong command line, 2 if the system could not do it, and 3 if the sum is wrong.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/compute"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// options are the flags.
type options struct {
	dev, listen, next          string
	rank, nodes, bytes, rounds int
	inNIC                      bool
	cores                      int
	timeout                    time.Duration
}

var (
	errUsage = errors.New("wrong command line")
	errSum   = errors.New("the sum is wrong")
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "allreduce:", err)
		os.Exit(1)
	case errors.Is(err, errSum):
		fmt.Fprintln(os.Stderr, "allreduce:", err)
		os.Exit(3)
	}
	fmt.Fprintln(os.Stderr, "allreduce:", err)
	os.Exit(2)
}

// run opens the device and makes the sums.
func run(ctx context.Context, args []string, w io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dev, err := rdma.Open(ctx, o.dev)
	if err != nil {
		return err
	}
	defer dev.Close()
	return o.run(ctx, dev, w)
}

// parse reads the command line.
func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("allreduce", flag.ContinueOnError)
	f.StringVar(&o.dev, "dev", "eth0", "the interface whose device the agent serves")
	f.StringVar(&o.listen, "listen", ":7177", "[ADDRESS]:PORT, where the host before connects")
	f.StringVar(&o.next, "next", "", "HOST:PORT of the next host")
	f.IntVar(&o.rank, "rank", 0, "number of this host, from 0 on")
	f.IntVar(&o.nodes, "nodes", 2, "hosts in the ring")
	f.IntVar(&o.bytes, "bytes", 16<<20, "length of the vector")
	f.IntVar(&o.rounds, "rounds", 3, "sums, one after the other")
	f.BoolVar(&o.inNIC, "in-nic", false, "have the NIC of the next host add; all hosts choose the same")
	f.IntVar(&o.cores, "cores", 1, "with -in-nic: tasks in execution at the same time")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "how long to wait for the other hosts")
	if err := f.Parse(args); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			err = fmt.Errorf("%w: %w", errUsage, err)
		}
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%w: %q: allreduce takes no arguments", errUsage, f.Arg(0))
	case o.next == "":
		return o, fmt.Errorf("%w: -next is missing: name the next host", errUsage)
	case o.nodes < 2 || o.rank < 0 || o.rank >= o.nodes:
		return o, fmt.Errorf("%w: -rank %d of %d hosts: choose 0 to %d", errUsage, o.rank, o.nodes, o.nodes-1)
	case o.bytes > 1<<31 || o.bytes%8 != 0 || o.bytes/8 < o.nodes:
		return o, fmt.Errorf("%w: -bytes %d: choose a multiple of 8, at least 8 for each host and at most 2 GiB", errUsage, o.bytes)
	}
	return o, nil
}

// run joins the ring on a device and makes the sums.
func (o *options) run(ctx context.Context, dev verbs.Device, w io.Writer) (err error) {
	var e *compute.Executor
	if o.inNIC {
		if e, err = compute.NewExecutor(compute.ExecutorConfig{Cores: o.cores, MaxBytes: 1 << 30, Background: true}); err != nil {
			return err
		}
		defer e.Close(context.Background())
	}
	vector, err := rdma.Alloc(dev, o.bytes)
	if err != nil {
		return err
	}
	joining, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	node, err := Join(joining, dev, Config{
		Listen: o.listen, Next: o.next, Rank: o.rank, Nodes: o.nodes, Vector: vector, Type: compute.Uint64, Executor: e,
	})
	if err != nil {
		return err
	}
	return errors.Join(o.sums(ctx, node, vector, w), node.Close())
}

// sums makes the sums, and checks and prints each.
func (o *options) sums(ctx context.Context, node *Ring, vector []byte, w io.Writer) error {
	n := uint64(o.nodes)
	for round := range uint64(o.rounds) {
		for i := 0; i < len(vector); i += 8 {
			binary.LittleEndian.PutUint64(vector[i:], uint64(o.rank)+uint64(i)*(round+1))
		}
		began := time.Now()
		if err := node.AllReduce(ctx); err != nil {
			return err
		}
		took := time.Since(began)
		for i := 0; i < len(vector); i += 8 {
			want := n*(n-1)/2 + n*uint64(i)*(round+1)
			if got := binary.LittleEndian.Uint64(vector[i:]); got != want {
				return fmt.Errorf("%w: sum %d: element %d is %d, and should be %d", errSum, round+1, i/8, got, want)
			}
		}
		moved := float64(len(vector)) * 2 * float64(n-1) / float64(n) * 8
		fmt.Fprintf(w, "sum %d: %d bytes of %d hosts in %v, %.2f Gbit/s sent\n", round+1, len(vector), n, took.Round(time.Microsecond), moved/took.Seconds()/1e9)
	}
	return nil
}
