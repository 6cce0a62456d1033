// SPDX-License-Identifier: Apache-2.0

// Package compute is the command compute: a server of compute tasks, and a client that reads operands from files,
// derives the result of a kernel from them, and prints it.
package compute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/rocev2/rdma/compute"
	"github.com/softroce/softroce-xdp/rocev2/task"
)

// New returns the command compute.
func New(a *host.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compute",
		Short: "Compute on the cores of another host, with data moved by RDMA",
		Long: `A server executes compute tasks of other hosts: it reads their operands by RDMA READ,
and writes the results to them by RDMA WRITE (docs/program/compute.md):

  host2# softroce-xdp compute serve
  host1# softroce-xdp compute run host2 sum measurements.bin:float32
  host1# softroce-xdp compute run host2 gemm a.bin:float64:100x200 b.bin:float64:200x50 --out c.bin`,
	}
	return cli.Group(cmd, newComputeServe(a), newComputeRun(a))
}

// coreFlags are the flags of commands that have cores for tasks.
type coreFlags struct {
	cores    uint32
	maxBytes string
}

func (c *coreFlags) flags(cmd *cobra.Command) {
	c.cores = uint32(runtime.NumCPU())
	f := cmd.Flags()
	f.Var(cli.CountVar(&c.cores, 1, 1024), "cores", "tasks in execution at the same time")
	f.StringVar(&c.maxBytes, "max-bytes", "64M", "most bytes of operands and result of a task, up to 1G")
}

// executor starts the cores, at the lowest priority of the operating system.
func (c *coreFlags) executor() (*task.Executor, error) {
	most, err := cli.ParseBytes(c.maxBytes)
	if err == nil && (most == 0 || most > maxTaskBytes) {
		err = fmt.Errorf("choose 1 to %s", cli.Bytes(maxTaskBytes))
	}
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--max-bytes %s: %w", c.maxBytes, err))
	}
	// A core that waits for the CPU must not keep other goroutines from it.
	runtime.GOMAXPROCS(runtime.NumCPU() + int(c.cores))
	return task.NewExecutor(task.Config{Cores: int(c.cores), MaxBytes: most, Background: true})
}

// serveFlags are those of compute serve.
type serveFlags struct {
	host.EngineFlags
	coreFlags
	listen         string
	depth, clients uint32
	quiet          bool
}

func newComputeServe(a *host.App) *cobra.Command {
	s := serveFlags{depth: task.DefaultDepth, clients: compute.DefaultMaxClients}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Execute tasks of other hosts",
		Long: `Serve executes the compute tasks of other hosts until Ctrl-C. Its cores run at the lowest
priority: they use the time that no other program wants.

Who can reach the port can use the cores. Tasks access memory of their own host only.
Serve needs no privileges where the agent serves the device (attach --nic).`,
		Args: cli.Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(a, cmd) },
	}
	s.EngineFlags.Flags(a, cmd)
	s.coreFlags.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&s.listen, "listen", ":"+strconv.Itoa(compute.Port), "[ADDRESS]:PORT")
	f.Var(cli.CountVar(&s.depth, 1, task.MaxDepth), "depth", "tasks of a client that are accepted and not answered; more wait at the client")
	f.Var(cli.CountVar(&s.clients, 1, 4096), "clients", "clients at the same time; others are rejected")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "print no line when a client comes or goes")
	return cmd
}

func (s *serveFlags) run(a *host.App, cmd *cobra.Command) error {
	e, err := s.executor()
	if err != nil {
		return err
	}
	defer e.Close(context.Background())
	at, err := cli.ParseAddress(s.listen, compute.Port)
	if err != nil {
		return cli.Usage(fmt.Errorf("--listen: %w", err))
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	dev, name, err := s.OpenConnector(ctx, a)
	if err != nil {
		return err
	}
	defer dev.Close()
	w := cmd.OutOrStdout()
	var mu sync.Mutex
	server, err := compute.Listen(ctx, dev, at, compute.ServerConfig{
		Executor: e, Depth: int(s.depth), MaxClients: int(s.clients),
		Report: func(client net.Addr, err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case s.quiet:
			case err == nil:
				fmt.Fprintf(w, "%s: connected\n", client)
			default:
				fmt.Fprintf(w, "%s: %v\n", client, err)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("--listen %s: %w", s.listen, err)
	}
	fmt.Fprintf(w, "%s: %d cores at %s\n", name, s.cores, server.Addr())
	if err := server.Serve(ctx); ctx.Err() == nil {
		return err
	}
	tasks, failed, busy := uint64(0), uint64(0), time.Duration(0)
	for _, c := range e.Cores() {
		tasks, failed, busy = tasks+c.Tasks, failed+c.Errors, busy+c.Busy
	}
	fmt.Fprintf(w, "%d tasks executed, %d of them failed, %s of a core\n", tasks, failed, cli.Nanos(int64(busy)))
	return nil
}

// runFlags are those of compute run.
type runFlags struct {
	host.EngineFlags
	out     string
	bins    uint32
	timeout time.Duration
}

func newComputeRun(a *host.App) *cobra.Command {
	r := runFlags{timeout: 10 * time.Second}
	cmd := &cobra.Command{
		Use:   "run HOST[:PORT] KERNEL OPERAND...",
		Short: "Have another host execute one task",
		Long: `Run sends one task to a host with "compute serve", and prints the result. An operand is
FILE:TYPE or FILE:TYPE:SHAPE: elements of this type, little-endian, of this host. The
file - is stdin. Without a shape it is a vector of all elements.

Kernels: add (two alike), sum, min, max (one), dot (two vectors), gemm (matrices A and B,
or also C that is added), crc32c (one), histogram (data, and a vector of the two limits;
with --bins). Types: ` + types() + `.`,
		Args: cli.Takes(3, 2+task.MaxOperands),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(a, cmd, args) },
	}
	r.Flags(a, cmd)
	f := cmd.Flags()
	f.StringVarP(&r.out, "out", "o", "", "write the result to this file, as the operands are, instead of printing it")
	f.Var(cli.CountVar(&r.bins, 0, 1<<24), "bins", "bins of histogram")
	f.VarP(cli.SpanVar(&r.timeout, time.Millisecond, 24*time.Hour), "timeout", "W", "how long to wait for the connection and the result")
	return cmd
}

func (r *runFlags) run(a *host.App, cmd *cobra.Command, args []string) error {
	server, err := cli.ParseAddress(args[0], compute.Port)
	if err != nil {
		return cli.Usage(err)
	}
	kernel, err := kernelNamed(args[1])
	if err != nil {
		return cli.Usage(err)
	}
	var in []operand
	for _, spec := range args[2:] {
		o, err := readOperand(spec, cmd.InOrStdin())
		var file *fs.PathError
		if errors.As(err, &file) {
			return err
		}
		if err != nil {
			return cli.Usage(err)
		}
		in = append(in, o)
	}
	job := job{Kernel: kernel, In: in}
	if job.Type, job.Shape, err = resultOf(kernel, in, r.bins); err != nil {
		return cli.Usage(err)
	}
	if err := job.Check(); err != nil {
		return cli.Usage(fmt.Errorf("%s: %w", args[1], err))
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	r.Peer = server
	dev, _, err := r.OpenConnector(ctx, a)
	if err != nil {
		return err
	}
	defer dev.Close()
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	result, err := job.Run(ctx, dev, server)
	if err != nil {
		return err
	}
	if r.out != "" {
		return os.WriteFile(r.out, result, 0o666)
	}
	return printResult(cmd.OutOrStdout(), result, job.Type, job.Shape)
}
