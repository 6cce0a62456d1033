// SPDX-License-Identifier: Apache-2.0

// Command bench measures the product, and shows it at work. `bench --help` lists
// its subcommands; package status has the exit statuses. Most need root, as they
// create network namespaces.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/carddemo"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/ccreport"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/netbench"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/ooobench"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/poolbench"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
	"github.com/softroce/softroce-xdp/testenv/bench/nicbench"
	"github.com/softroce/softroce-xdp/testenv/bench/xdpbench"
)

func main() { os.Exit(status.Run(newRoot())) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "bench",
		Short: "Measure softroce-xdp, and show it at work",
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		carddemo.Command(), ccreport.Command(), netbench.DemoCommand(), ooobench.DisorderCommand(), netbench.ForwardCommand(), nicbench.Command(), nicbench.ClientCommand(), nicbench.PeerCommand(), ooobench.VirtualCommand(),
		pacerCommand(), poolbench.Command(), poolbench.WorkerCommand(), poolbench.DemoCommand(), ooobench.RailsCommand(),
		netbench.LoadCommand(), netbench.RxeCommand(), sweepCommand(), netbench.TCPCommand(), xdpbench.Command(), xskCommand(),
	)
	return root
}
