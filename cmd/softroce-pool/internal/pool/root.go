// SPDX-License-Identifier: Apache-2.0

// Package pool has the commands of softroce-pool: a server that lends memory, nodes that lease and use it, and what both
// print.
package pool

import (
	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/host"
)

// New returns the root command of softroce-pool.
func New() *cobra.Command {
	a := &host.App{}
	root := &cobra.Command{
		Short: "Lend memory to other hosts, or use that of another host",
		Long: `A server lends memory to nodes, which access it by RDMA READ and WRITE. Each period of
a node, the server divides the pool by what the nodes need (docs/run/memory-pool.md):

  host2# softroce-pool serve --bytes 1G
  host1# softroce-pool join host2 --bytes 64M --check
  host1# softroce-pool map host2 --bytes 64M --local 16M
  host1# softroce-pool status host2

More than one server needs an etcd, where the servers are listed:

  host2# softroce-pool serve --directory http://host4:2379
  host3# softroce-pool serve --directory http://host4:2379
  host1# softroce-pool join --directory http://host4:2379 --mirror`,
	}
	a.Flags(root.PersistentFlags())
	all := []*cobra.Command{newServe(a), newJoin(a), newMap(a), newLeave(a), newStatus(a), newTop(a), newBench(a), newMetrics(a)}
	var names []string
	for _, c := range all {
		names = append(names, c.Name())
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.ReadConfig(cmd, nil, names) }
	root.AddCommand(all...)
	root.AddCommand(newMapProcess())
	return root
}
