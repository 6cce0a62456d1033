// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/node"
)

// nodeFlags are those of commands that lease memory.
type nodeFlags struct {
	name, bytes string
	period      time.Duration
}

func (n *nodeFlags) flags(cmd *cobra.Command, bytes string) {
	n.period = time.Second
	f := cmd.Flags()
	f.StringVar(&n.name, "name", hostName(), "name of this node, unique at the server")
	f.StringVar(&n.bytes, "bytes", "64M", bytes)
	f.VarP(cli.SpanVar(&n.period, lease.DefaultMinPeriod, lease.DefaultMaxPeriod), "period", "i", "from one lease to the next")
}

// config returns what the flags say, with --bytes as the demand.
func (n *nodeFlags) config() (node.Config, error) {
	bytes, err := cli.ParseBytes(n.bytes)
	if err != nil {
		return node.Config{}, cli.Usage(fmt.Errorf("--bytes: %w", err))
	}
	if err := checkNodeName(n.name); err != nil {
		return node.Config{}, err
	}
	return node.Config{Name: n.name, Period: n.period, Demand: bytes}, nil
}

// checkNodeName returns an error of the usage for a name that no node can have.
func checkNodeName(name string) error {
	if name == "" || len(name) > lease.MaxName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return cli.Usagef("--name %q: %w", name, lease.ErrName)
	}
	return nil
}
