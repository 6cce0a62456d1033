// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// newVersion shows the version of the program.
func (p *Program) newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this binary",
		Args:  Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				all := map[string]any{"version": Version, "go": runtime.Version(), "arch": runtime.GOARCH}
				if p.TableLayout != 0 {
					all["table_layout"] = p.TableLayout
				}
				return WriteJSON(cmd.OutOrStdout(), all)
			}
			layout := ""
			if p.TableLayout != 0 {
				layout = fmt.Sprintf("table layout %d, ", p.TableLayout)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s%s, %s)\n", p.Name, Version, layout, runtime.Version(), runtime.GOARCH)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
