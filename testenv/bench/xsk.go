// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/bench/nicbench"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// xskCommand measures raw AF_XDP over a veth pair that it creates: what gets through
// in one direction, and round trips.
func xskCommand() *cobra.Command {
	var loop nicbench.LoopSpec
	var sizes []int
	var asJSON, onlyLoop bool
	cmd := &cobra.Command{
		Use:   "xsk",
		Short: "Measure raw AF_XDP over a veth pair",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			defer func() { err = compare.Failure(err) }()
			top, err := topo.New(topo.Spec{Hosts: topo.Hosts(2)})
			if err != nil {
				return err
			}
			defer top.Close()
			ends, err := topo.Cable(top.Host(1), top.Host(2), topo.CableSpec{Name: "cable0", MTU: 9000})
			if err != nil {
				return err
			}
			show := func(what string, r fmt.Stringer) {
				if asJSON {
					_ = json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{what: r})
					return
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%-9s %v\n", what, r)
			}
			for _, loop.Size = range sizes {
				r, err := nicbench.Loop(cmd.Context(), ends, loop)
				if err != nil {
					return err
				}
				show("one way", r)
			}
			if onlyLoop {
				return nil
			}
			for _, sleep := range []bool{false, true} {
				r, err := nicbench.PingPong(cmd.Context(), ends, nicbench.PingPongSpec{
					Size: sizes[0], Duration: loop.Duration, Busy: loop.Busy, Sleep: sleep,
				})
				if err != nil {
					return err
				}
				show(map[bool]string{false: "spinning", true: "sleeping"}[sleep], r)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.DurationVar(&loop.Duration, "time", time.Second, "of each measurement")
	f.IntSliceVar(&sizes, "size", []int{64, 1100, 2120, 4170}, "bytes of a packet, Ethernet header included")
	f.IntVar(&loop.Batch, "batch", 256, "packets a kick")
	f.DurationVar(&loop.Busy, "busy", 0, "busy polling of the driver")
	f.BoolVar(&loop.Kicker, "kicker", false, "kick from another thread than the one that builds")
	f.BoolVar(&loop.Spin, "spin", false, "receiver never sleeps")
	f.BoolVar(&onlyLoop, "one-way", false, "measure no round trips")
	f.BoolVar(&asJSON, "json", false, "one JSON object a line")
	return cmd
}
