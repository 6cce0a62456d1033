// SPDX-License-Identifier: Apache-2.0

package show

import (
	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/cmd/internal/view"
	"github.com/softroce/softroce-xdp/loader"
)

func newStats(a *host.App) *cobra.Command {
	var out cli.Output
	var all bool
	cmd := &cobra.Command{
		Use:   "stats [IF]",
		Short: "Show the counters of the data plane",
		Long: `Stats shows why packets were treated as they were: each counter is one reason, with
what became of the packet. With --watch a second number says how much was added
since the last refresh.`,
		Args:              cli.Takes(0, 1),
		ValidArgsFunction: a.CompleteAttached,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.One(args)
			if err != nil {
				return err
			}
			return view.ShowStats(&out, cmd, name, all, func() ([]loader.Stat, error) { return readStats(a, name) })
		},
	}
	out.Flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "the counters at zero, too")
	return cmd
}

func readStats(a *host.App, name string) ([]loader.Stat, error) {
	att, err := loader.Open(name, a.Options())
	if err != nil {
		return nil, err
	}
	defer att.Close()
	return att.Stats()
}
