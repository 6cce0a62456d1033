// SPDX-License-Identifier: Apache-2.0

// Command softroce-xdp turns a Linux interface into a RoCEv2 NIC with congestion
// control per destination.
package main

import (
	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/cmd/internal/policy"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/attach"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/compute"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/decode"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/key"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/perf"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/ping"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/show"
)

var program = cli.Program{Name: "softroce-xdp", TableLayout: bpf.ABIVersion, Root: newRoot, Misuse: policy.Misuse, Hint: host.Hint}

func main() { program.Main() }

// placesOnly are the commands that read only pin-root and run-dir of the configuration file. Attach reads all of it,
// the other commands do not read it.
var placesOnly = []string{"detach", "status", "table", "top", "stats", "metrics", "policy", "perf", "ping", "compute", "clean", "run", "verbs"}

func newRoot() *cobra.Command {
	a, log := &host.App{}, &cli.LogFlags{}
	root := &cobra.Command{
		Short: "A RoCEv2 NIC in software, with congestion control per destination",
		Long: `softroce-xdp attaches XDP and TC programs to a Linux interface. From then on the
RoCEv2 traffic through it (Linux rxe, for example) is stamped with its time of
departure. A table has the transmit and receive times of every destination, and a
policy sets each destination's rate from them. All other traffic passes untouched.`,
	}
	a.Flags(root.PersistentFlags())
	log.Flags(root.PersistentFlags())
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return a.ReadConfig(cmd, []string{"attach"}, placesOnly)
	}
	root.AddCommand(attach.Commands(a, log)...)
	root.AddCommand(show.Commands(a)...)
	root.AddCommand(perf.New(a, log), ping.New(a), key.New(), compute.New(a), decode.New())
	root.AddCommand(newRun(a), newVerbs(a))
	root.AddCommand(newSiblings(root.PersistentFlags())...)
	return root
}
