// SPDX-License-Identifier: Apache-2.0

package show

import (
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/cmd/internal/view"
)

func newTop(a *host.App) *cobra.Command {
	interval := time.Second
	key := cli.Choice{Value: "sending", Of: view.SortKeys()}
	cmd := &cobra.Command{
		Use:   "top [IF]",
		Short: "Watch the destination table on the terminal",
		Long: `Top shows the destination table live. Keys: < and > (or the arrows) choose the column
to sort by, up, down, page up, page down scroll, space pauses, q ends it.`,
		Args:              cli.Takes(0, 1),
		ValidArgsFunction: a.CompleteAttached,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cli.IsTerminal(os.Stdout) || !cli.IsTerminal(os.Stdin) {
				return cli.Usagef("top needs a terminal: use `softroce-xdp table --watch` here")
			}
			name, err := a.One(args)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
			defer stop()
			return cli.RunScreen(ctx, newScreen(func(before *view.Table) (*view.Table, error) {
				return readTable(a, name, before, key.Value)
			}, key.Value), interval, os.Stdin, os.Stdout)
		},
	}
	cmd.Flags().Var(cli.SpanVar(&interval, 10*time.Millisecond, time.Hour), "interval", "time between two refreshes")
	cmd.Flags().Var(&key, "sort", "column to sort by first: "+strings.Join(key.Of, ", "))
	return cmd
}
