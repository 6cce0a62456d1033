// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader"
)

func newClean(a *attacher) *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove what interfaces that are gone have left",
		Long: `Clean removes pins and state of interfaces that were deleted, and what an attach
that was interrupted has left. Live attachments stay, but for what an engine that was
killed has left in their maps.`,
		Args: cli.Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := loader.Clean(a.Options())
			for _, n := range names {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: removed\n", n)
			}
			if err == nil && len(names) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "nothing to remove")
			}
			for _, stays := range a.notRemoved() {
				fmt.Fprintln(cmd.OutOrStdout(), stays)
			}
			return err
		},
	}
}

// notRemoved explains what clean leaves where the user may expect something else: attachments of
// interfaces that were renamed or moved, and those that have lost their pins.
func (a *attacher) notRemoved() (all []error) {
	ours, others, _ := loader.Attached(a.Options())
	for _, name := range ours {
		if err := loader.CheckRenamed(name, a.Options()); err != nil {
			all = append(all, err)
		}
	}
	for _, name := range others {
		all = append(all, loader.CheckHere(name, a.Options()))
	}
	return append(all, loader.Strays(a.Options())...)
}
