// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/loader"
)

func newDetach() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "detach IF... | --all",
		Short: "Take everything off that attach has put on",
		RunE: func(cmd *cobra.Command, ifs []string) error {
			if all == (len(ifs) > 0) {
				return errors.New("detach: name the interfaces, or use --all")
			}
			return system(func(cmd *cobra.Command, ifs []string) error {
				if all {
					var err error
					if ifs, err = loader.Pinned(global.pinRoot); err != nil {
						return err
					}
				}
				var errs []error
				for _, name := range ifs {
					if err := loader.Detach(name, openOptions()); err != nil {
						errs = append(errs, err)
						continue
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s: detached\n", name)
				}
				return errors.Join(errs...)
			})(cmd, ifs)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every attached interface")
	return cmd
}
