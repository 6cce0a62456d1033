// SPDX-License-Identifier: Apache-2.0

// Command bench measures the product, and shows it at work. `bench --help` lists
// its subcommands; package compare has the exit statuses. Most need root, as they
// create network namespaces.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/netbench"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/ooobench"
	"github.com/softroce/softroce-xdp/testenv/bench/nicbench"
	"github.com/softroce/softroce-xdp/testenv/bench/xdpbench"
)

func main() { os.Exit(compare.Run(newRoot())) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "bench",
		Short: "Measure softroce-xdp, and show it at work",
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		cardDemoCommand(), ccReportCommand(), pacerCommand(), xskCommand(), xdpbench.Command(),
		netbench.DemoCommand(), netbench.ForwardCommand(), netbench.LoadCommand(), netbench.PoolCommand(), netbench.PoolDemoCommand(),
		netbench.PoolWorkerCommand(), netbench.RxeCommand(), netbench.SweepCommand(), netbench.TCPCommand(),
		nicbench.Command(), nicbench.ClientCommand(), nicbench.PeerCommand(),
		ooobench.DisorderCommand(), ooobench.RailsCommand(), ooobench.VirtualCommand(),
	)
	return root
}
