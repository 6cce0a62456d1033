// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/pages"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/mempool/vmm/exercise"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// mapFlags are those of map.
type mapFlags struct {
	clientFlags
	nodeFlags
	local    string
	accesses uint64
	repeat   uint64
	seed     uint64
	grow     bool
	deadline time.Duration
}

func newMap(a *host.App) *cobra.Command {
	p := mapFlags{accesses: 20000, repeat: 1, seed: 1, deadline: vmm.DefaultDeadline}
	cmd := &cobra.Command{
		Use:   "map HOST[:PORT]",
		Short: "Use memory of a server as a byte slice, and check it",
		Long: `Map makes a byte slice of --bytes of which --local is in this host's memory, and the rest
at a host with "softroce-pool serve". It fills the slice, accesses it at random, adds it up and
hashes it, and prints what each step took. PAGE-INS are first accesses to pages that
were not in the memory of this host.

Programs in Go do the same with package mempool/vmm (docs/program/memory-map.md).
Ctrl-C ends map before. It needs Linux 6.6 and the right to use userfaultfd. The exit code is 3 if data is wrong.`,
		Args: cli.Takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(a, cmd, args[0]) },
	}
	p.clientFlags.flags(a, cmd)
	p.nodeFlags.flags(cmd, "length of the slice")
	f := cmd.Flags()
	f.StringVar(&p.local, "local", "16M", "memory of this host for it, at least 64K")
	f.Uint64Var(&p.accesses, "accesses", p.accesses, "random accesses")
	f.VarP(cli.BigVar(&p.repeat, 1), "count", "c", "how often to do all steps")
	f.Uint64Var(&p.seed, "seed", p.seed, "of the content and of the random accesses")
	f.BoolVar(&p.grow, "grow", false, "ask the server for space when it is needed, and not for all of it at first")
	f.VarP(cli.SpanVar(&p.deadline, time.Millisecond, time.Hour), "deadline", "", "how long an access waits for a page")
	return cmd
}

// config returns what the flags say.
func (p *mapFlags) config() (c vmm.Config, n node.Config, err error) {
	if n, err = p.nodeFlags.config(); err != nil {
		return c, n, err
	}
	local, err := cli.ParseBytes(p.local)
	if err != nil {
		return c, n, cli.Usage(fmt.Errorf("--local: %w", err))
	}
	size := n.Demand
	if size%vmm.PageSize != 0 || size == 0 || size > vmm.MaxSize {
		return c, n, cli.Usagef("--bytes %s: choose a multiple of 4K up to %s", p.bytes, cli.Bytes(vmm.MaxSize))
	}
	if local < vmm.MinLocal {
		return c, n, cli.Usagef("--local %s: choose at least %s", p.local, cli.Bytes(vmm.MinLocal))
	}
	c = vmm.Config{Size: int64(size), Local: int64(min(local, size)), Deadline: p.deadline}
	if n.Demand = uint64(c.Size - c.Local); p.grow {
		n.Demand = 0
	}
	return c, n, nil
}

func (p *mapFlags) run(a *host.App, cmd *cobra.Command, host string) error {
	at, err := serverAddress(host)
	if err != nil {
		return err
	}
	c, n, err := p.config()
	if err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	name, err := json.Marshal(mapStore{
		RunDir: a.RunDir, PinRoot: a.PinRoot, Dev: p.Iface, Spin: p.Spin, PreCredit: p.Precredit, LargeDSCP: p.LargeDSCP,
		Server: at, Name: n.Name, Period: n.Period, Demand: n.Demand, Timeout: p.timeout,
	})
	if err != nil {
		return err
	}
	m, err := vmm.NewMap(vmm.MapConfig{Config: c, Store: string(name), Command: []string{"/proc/self/exe", MapProcess}, StartTimeout: p.timeout + vmm.DefaultStartTimeout})
	if err != nil {
		return err
	}
	t := mapTable{Map: m, Out: cmd.OutOrStdout(), JSON: p.json}
	for round := uint64(0); round < p.repeat && err == nil; round++ {
		err = t.Exercise(ctx, exercise.Config{Seed: p.seed + round, Accesses: int(p.accesses)})
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // Ctrl-C: what was checked is printed
	}
	err = errors.Join(err, m.Close())
	if errors.Is(err, exercise.ErrData) {
		return cli.No(err)
	}
	return err
}

// mapStore is the store of map, as its handler process gets it.
type mapStore struct {
	RunDir, PinRoot, Dev string
	Spin                 time.Duration
	PreCredit            bool
	LargeDSCP            uint32

	Server, Name    string
	Period, Timeout time.Duration
	Demand          uint64
}

// MapProcess is the hidden command that the handler of a map and its guardian execute.
const MapProcess = "map-process"

// newMapProcess does the work of the processes that softroce-pool map starts.
func newMapProcess() *cobra.Command {
	return &cobra.Command{
		Use:    MapProcess,
		Short:  "Serve the pages of a map, as a process that map has started",
		Hidden: true,
		Args:   cli.Takes(0, 0),
		RunE: func(*cobra.Command, []string) error {
			vmm.Main(func(name string) (vmm.Store, error) {
				var s mapStore
				if err := json.Unmarshal([]byte(name), &s); err != nil {
					return nil, err
				}
				return s.open()
			})
			return errors.New("softroce-pool map starts this process: it is no command for people")
		},
	}
}

func (s *mapStore) open() (vmm.Store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	e := host.EngineFlags{Iface: s.Dev, Spin: s.Spin, Precredit: s.PreCredit, LargeDSCP: s.LargeDSCP}
	dev, _, err := e.OpenConnector(ctx, &host.App{RunDir: s.RunDir, PinRoot: s.PinRoot})
	if err != nil {
		return nil, err
	}
	n, err := node.Join(ctx, dev, s.Server, node.Config{Name: s.Name, Period: s.Period, Demand: s.Demand})
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	keepTicket(s.RunDir, s.Name, os.Stderr)(n)
	store, err := pages.New(n, pages.Config{Demand: s.Demand})
	if err != nil {
		return nil, errors.Join(err, n.Close(), dev.Close())
	}
	return &leasedStore{store, n, dev}, nil
}

// leasedStore gives its lease back when it is closed.
type leasedStore struct {
	*pages.Store
	node *node.Node
	dev  verbs.Device
}

// leaveTimeout is how long a handler waits for the server before it ends.
const leaveTimeout = 5 * time.Second

func (s *leasedStore) Close() error {
	s.Store.Close()
	if s.node.Err() != nil { // the accesses have told it
		return errors.Join(s.node.Close(), s.dev.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	return errors.Join(s.node.Leave(ctx), s.dev.Close())
}
