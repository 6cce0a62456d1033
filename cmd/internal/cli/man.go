// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan writes the man pages from the text of the commands.
func (p *Program) newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write man pages, one a command",
		Hidden: true,
		Args:   Takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("man pages: %w", err)
			}
			root := p.complete()
			root.DisableAutoGenTag = true
			p.addExitStatus(root)
			// The date is SOURCE_DATE_EPOCH, which the Makefile sets to the commit's.
			return doc.GenManTree(root, &doc.GenManHeader{
				Title: strings.ToUpper(p.Name), Section: "8", Source: p.Name + " " + Version, Manual: "softroce-xdp",
			}, args[0])
		},
	}
}

// addExitStatus gives every page a section on the exit codes of the program.
func (p *Program) addExitStatus(c *cobra.Command) {
	var b strings.Builder
	text, _, _ := strings.Cut(c.Long, exitHeading)
	if b.WriteString(text); text == "" {
		b.WriteString(c.Short)
	}
	b.WriteString("\n\n# EXIT STATUS\n")
	for _, x := range ExitCodes(p.Name) {
		fmt.Fprintf(&b, "**%d**  %s: %s.\n\n", x.Number, x.Meaning, x.Detail)
	}
	c.Long = b.String()
	for _, sub := range c.Commands() {
		p.addExitStatus(sub)
	}
}
