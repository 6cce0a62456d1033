// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/top"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/view"
)

func newTop(a *app) *cobra.Command {
	interval := time.Second
	key := choice{value: "sending", of: view.SortKeys()}
	cmd := &cobra.Command{
		Use:   "top [IF]",
		Short: "Watch the destination table on the terminal",
		Long: `Top shows the destination table live. Keys: < and > (or the arrows) choose the column
to sort by, up, down, page up, page down scroll, space pauses, q ends it.`,
		Args:              takes(0, 1),
		ValidArgsFunction: a.completeAttached,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isTerminal(os.Stdout) || !isTerminal(os.Stdin) {
				return usagef("top needs a terminal: use `softroce-xdp table --watch` here")
			}
			name, err := a.one(args)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
			defer stop()
			return top.Run(ctx, top.New(func(before *view.Table) (*view.Table, error) {
				return a.readTable(name, before, key.value)
			}, key.value), interval, os.Stdin, os.Stdout)
		},
	}
	cmd.Flags().Var(spanVar{&interval, 10 * time.Millisecond, time.Hour}, "interval", "time between two refreshes")
	cmd.Flags().Var(&key, "sort", "column to sort by first: "+strings.Join(key.of, ", "))
	return cmd
}
