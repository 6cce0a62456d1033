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
			return out.showStats(cmd, name, all, func() ([]loader.Stat, error) { return a.readStats(name) })
		},
	}
	out.flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "the counters at zero, too")
	return cmd
}

// showStats shows counters, as often as the flags say.
func (o *output) showStats(cmd *cobra.Command, name string, all bool, read func() ([]loader.Stat, error)) error {
	var before []loader.Stat
	return o.show(cmd, func() (any, func(io.Writer), error) {
		now, err := read()
		if err != nil {
			return nil, nil, err
		}
		s := view.StatsOf(name, now, all, time.Now(), before)
		if o.watch {
			before = now
		}
		return s, s.Write, nil
	})
}

func (a *app) readStats(name string) ([]loader.Stat, error) {
	att, err := loader.Open(name, a.options())
	if err != nil {
		return nil, err
	}
	defer att.Close()
	return att.Stats()
}
