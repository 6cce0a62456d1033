// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/view"
	"github.com/softroce/softroce-xdp/loader"
)

func newStats(a *app) *cobra.Command {
	var out output
	var all bool
	cmd := &cobra.Command{
		Use:   "stats [IF]",
		Short: "Show the counters of the data plane",
		Long: `Stats shows why packets were treated as they were: each counter is one reason, with
what became of the packet. With --watch a second number says how much was added
since the last refresh.`,
		Args:              takes(0, 1),
		ValidArgsFunction: a.completeAttached,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.one(args)
			if err != nil {
				return err
			}
			var before []loader.Stat
			return out.show(cmd, func() (any, func(io.Writer), error) {
				now, err := a.readStats(name)
				if err != nil {
					return nil, nil, err
				}
				s := view.StatsOf(name, now, all, time.Now(), before)
				if out.watch {
					before = now
				}
				return s, s.Write, nil
			})
		},
	}
	out.flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "the counters at zero, too")
	return cmd
}

func (a *app) readStats(name string) ([]loader.Stat, error) {
	att, err := loader.Open(name, a.options())
	if err != nil {
		return nil, err
	}
	defer att.Close()
	return att.Stats()
}
