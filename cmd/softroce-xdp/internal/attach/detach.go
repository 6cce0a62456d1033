// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader"
)

func newDetach(a *attacher) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "detach IF... | --all",
		Short: "Remove everything that attach has installed",
		Long: `Detach stops the agent and removes programs, pins and state, and puts back what
attach has changed on the interface (the root qdisc). RoCEv2 goes on unstamped and
unpaced. It also removes what an interface that is gone has left.`,
		ValidArgsFunction: a.CompleteAttached,
		RunE: func(cmd *cobra.Command, ifs []string) (err error) {
			switch {
			case all && len(ifs) > 0:
				return cli.Usagef("name the interfaces, or use --all, not both")
			case !all && len(ifs) == 0:
				return cli.Usagef("name the interfaces to detach, or use --all")
			case all:
				var others []string
				if ifs, others, err = loader.Attached(a.Options()); err != nil {
					return err
				}
				for _, name := range others {
					fmt.Fprintln(cmd.OutOrStdout(), loader.CheckHere(name, a.Options()))
				}
				strays := loader.Strays(a.Options())
				for _, stray := range strays {
					fmt.Fprintln(cmd.OutOrStdout(), stray)
				}
				if len(ifs)+len(others)+len(strays) == 0 {
					fmt.Fprintln(cmd.OutOrStdout(), "no interface is attached")
				}
			default:
				if ifs, err = a.RealNames(ifs); err != nil {
					return err
				}
			}
			var errs []error
			for _, name := range ifs {
				if err := loader.Detach(name, a.Options()); err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: detached\n", name)
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every interface of this network namespace that is attached, and what those that are gone have left")
	return cmd
}
