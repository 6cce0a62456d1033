// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan writes the man pages from the text of the commands.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write man pages, one a command",
		Hidden: true,
		Args:   takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("man pages: %w", err)
			}
			root := newRoot(&app{})
			root.DisableAutoGenTag = true
			addExitStatus(root)
			// The date is SOURCE_DATE_EPOCH, which the Makefile sets to the commit's.
			return doc.GenManTree(root, &doc.GenManHeader{
				Title: "SOFTROCE-XDP", Section: "8", Source: "softroce-xdp " + version, Manual: "softroce-xdp",
			}, args[0])
		},
	}
}

// addExitStatus gives every page a section on the exit codes.
func addExitStatus(c *cobra.Command) {
	var b strings.Builder
	text, _, _ := strings.Cut(c.Long, exitHeading)
	if b.WriteString(text); text == "" {
		b.WriteString(c.Short)
	}
	b.WriteString("\n\n# EXIT STATUS\n")
	for _, x := range exitCodes {
		fmt.Fprintf(&b, "**%d**  %s: %s.\n\n", x.number, x.meaning, x.detail)
	}
	c.Long = b.String()
	for _, sub := range c.Commands() {
		addExitStatus(sub)
	}
}
