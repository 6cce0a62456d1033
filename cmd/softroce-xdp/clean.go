// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/loader"
)

func newClean(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove what interfaces that are gone have left",
		Long: `Clean removes pins and state of interfaces that were deleted, and what an attach
that was interrupted has left. Live attachments stay, but for what an engine that was
killed has left in their maps.`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := loader.Clean(a.options())
			for _, n := range names {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: removed\n", n)
			}
			if err == nil && len(names) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "nothing to remove")
			}
			return err
		},
	}
}
