// SPDX-License-Identifier: Apache-2.0

// Command bench measures the product, and shows it at work. `bench --help` lists
// its subcommands; package status has the exit statuses. Most need root, as they
// create network namespaces.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/carddemo"
	"github.com/softroce/softroce-xdp/testenv/bench/ccreport"
	"github.com/softroce/softroce-xdp/testenv/bench/demo"
	"github.com/softroce/softroce-xdp/testenv/bench/disorderbench"
	"github.com/softroce/softroce-xdp/testenv/bench/forwardbench"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
	"github.com/softroce/softroce-xdp/testenv/bench/nicbench"
	"github.com/softroce/softroce-xdp/testenv/bench/orderbench"
	"github.com/softroce/softroce-xdp/testenv/bench/poolbench"
	"github.com/softroce/softroce-xdp/testenv/bench/pooldemo"
	"github.com/softroce/softroce-xdp/testenv/bench/railsbench"
	"github.com/softroce/softroce-xdp/testenv/bench/roceload"
	"github.com/softroce/softroce-xdp/testenv/bench/rxebench"
	"github.com/softroce/softroce-xdp/testenv/bench/tcpbench"
)

func main() { os.Exit(status.Run(newRoot())) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "bench",
		Short: "Measure softroce-xdp, and show it at work",
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		carddemo.Command(), ccreport.Command(), demo.Command(), disorderbench.Command(), forwardbench.Command(), nicbench.Command(), nicbench.ClientCommand(), nicbench.PeerCommand(), orderbench.Command(),
		pacerCommand(), poolbench.Command(), poolbench.WorkerCommand(), pooldemo.Command(), railsbench.Command(),
		roceload.Command(), rxebench.Command(), sweepCommand(), tcpbench.Command(), xskCommand(),
	)
	return root
}
