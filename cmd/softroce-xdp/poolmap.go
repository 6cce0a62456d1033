// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/pooling"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/units"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/mempool/vmm/exercise"
	"github.com/softroce/softroce-xdp/mempool/vmm/poolstore"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// poolMapFlags are those of pool map.
type poolMapFlags struct {
	poolClientFlags
	nodeFlags
	local    string
	accesses uint64
	repeat   uint64
	seed     uint64
	grow     bool
	deadline time.Duration
}

func newPoolMap(a *app) *cobra.Command {
	p := poolMapFlags{accesses: 20000, repeat: 1, seed: 1, deadline: vmm.DefaultDeadline}
	cmd := &cobra.Command{
		Use:   "map HOST[:PORT]",
		Short: "Use memory of a server as a byte slice, and check it",
		Long: `Map makes a byte slice of --bytes of which --local is in this host's memory, and the rest
at a host with "pool serve". It fills the slice, accesses it at random, adds it up and
hashes it, and prints what each step took. PAGE-INS are first accesses to pages that
were not in the memory of this host.

Programs in Go do the same with package mempool/vmm (docs/program/memory-map.md).
Ctrl-C ends map before. It needs Linux 6.6 and the right to use userfaultfd. The exit code is 3 if data is wrong.`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(a, cmd, args[0]) },
	}
	p.poolClientFlags.flags(a, cmd)
	p.nodeFlags.flags(cmd, "length of the slice")
	f := cmd.Flags()
	f.StringVar(&p.local, "local", "16M", "memory of this host for it, at least 64K")
	f.Uint64Var(&p.accesses, "accesses", p.accesses, "random accesses")
	f.VarP(bigVar{&p.repeat, 1}, "count", "c", "how often to do all steps")
	f.Uint64Var(&p.seed, "seed", p.seed, "of the content and of the random accesses")
	f.BoolVar(&p.grow, "grow", false, "ask the server for space when it is needed, and not for all of it at first")
	f.VarP(spanVar{&p.deadline, time.Millisecond, time.Hour}, "deadline", "", "how long an access waits for a page")
	return cmd
}

// config returns what the flags say.
func (p *poolMapFlags) config() (c vmm.Config, n node.Config, err error) {
	if n, err = p.nodeFlags.config(); err != nil {
		return c, n, err
	}
	local, err := units.ParseBytes(p.local)
	if err != nil {
		return c, n, usageError{fmt.Errorf("--local: %w", err), false}
	}
	size := n.Demand
	if size%vmm.PageSize != 0 || size == 0 || size > vmm.MaxSize {
		return c, n, usagef("--bytes %s: choose a multiple of 4K up to %s", p.bytes, units.Bytes(vmm.MaxSize))
	}
	if local < vmm.MinLocal {
		return c, n, usagef("--local %s: choose at least %s", p.local, units.Bytes(vmm.MinLocal))
	}
	c = vmm.Config{Size: int64(size), Local: int64(min(local, size)), Deadline: p.deadline}
	if n.Demand = uint64(c.Size - c.Local); p.grow {
		n.Demand = 0
	}
	return c, n, nil
}

func (p *poolMapFlags) run(a *app, cmd *cobra.Command, host string) error {
	at, err := poolServer(host)
	if err != nil {
		return err
	}
	c, n, err := p.config()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	name, err := json.Marshal(poolMapStore{
		RunDir: a.runDir, PinRoot: a.pinRoot, Dev: p.iface, Spin: p.spin, PreCredit: p.precredit, LargeDSCP: p.largeDSCP,
		Server: at, Name: n.Name, Period: n.Period, Demand: n.Demand, Timeout: p.timeout,
	})
	if err != nil {
		return err
	}
	m, err := vmm.NewMap(vmm.MapConfig{Config: c, Store: string(name), StartTimeout: p.timeout + vmm.DefaultStartTimeout})
	if err != nil {
		return err
	}
	t := pooling.MapTable{Map: m, Out: cmd.OutOrStdout(), JSON: p.json}
	for round := uint64(0); round < p.repeat && err == nil; round++ {
		err = t.Exercise(ctx, exercise.Config{Seed: p.seed + round, Accesses: int(p.accesses)})
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // Ctrl-C: what was checked is printed
	}
	err = errors.Join(err, m.Close())
	if errors.Is(err, exercise.ErrData) {
		return noError{err}
	}
	return err
}

// poolMapStore is the store of pool map, as its handler process gets it.
type poolMapStore struct {
	RunDir, PinRoot, Dev string
	Spin                 time.Duration
	PreCredit            bool
	LargeDSCP            uint32

	Server, Name    string
	Period, Timeout time.Duration
	Demand          uint64
}

// poolMapProcess does the work of a handler process of pool map, and exits. In other processes it returns.
func poolMapProcess() {
	vmm.Main(func(name string) (vmm.Store, error) {
		var s poolMapStore
		if err := json.Unmarshal([]byte(name), &s); err != nil {
			return nil, err
		}
		return s.open()
	})
}

func (s *poolMapStore) open() (vmm.Store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	e := engineFlags{iface: s.Dev, spin: s.Spin, precredit: s.PreCredit, largeDSCP: s.LargeDSCP}
	dev, _, err := e.openConnector(ctx, &app{runDir: s.RunDir, pinRoot: s.PinRoot})
	if err != nil {
		return nil, err
	}
	n, err := node.Join(ctx, dev, s.Server, node.Config{Name: s.Name, Period: s.Period, Demand: s.Demand})
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	keepTicket(s.RunDir, s.Name, os.Stderr)(n)
	store, err := poolstore.New(n, s.Demand)
	if err != nil {
		return nil, errors.Join(err, n.Close(), dev.Close())
	}
	return &leasedStore{store, n, dev}, nil
}

// leasedStore gives its lease back when it is closed.
type leasedStore struct {
	*poolstore.Store
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
