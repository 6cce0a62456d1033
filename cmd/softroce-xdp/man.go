// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan writes the man pages from the text of the commands.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write man pages, one a command",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("man pages: %w", err)
			}
			root := newRoot(&app{})
			root.DisableAutoGenTag = true
			// The date is SOURCE_DATE_EPOCH, which the Makefile sets to the commit's.
			return doc.GenManTree(root, &doc.GenManHeader{
				Title: "SOFTROCE-XDP", Section: "8", Source: "softroce-xdp " + version, Manual: "softroce-xdp",
			}, args[0])
		},
	}
}
