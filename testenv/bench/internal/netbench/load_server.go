// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
)

func newServer() *cobra.Command {
	var c common
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Answer RDMA WRITEs and check every byte, until interrupted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ep, err := c.open(ownAddress)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "listening on %s\n", c.Local)
			err = serve(cmd, ep, &c, duration)
			if closeErr := ep.Close(); err == nil && closeErr != nil {
				err = compare.Failure(closeErr)
			}
			return err
		},
	}
	c.register(cmd)
	cmd.Flags().DurationVar(&duration, "time", 0, "stop after this time (default: when interrupted)")
	cmd.Flags().Float64Var(&c.Drop, "drop", 0, "share of the packets to drop on arrival, 0 to 1")
	return cmd
}

// arrival is one line of the server's output.
type arrival struct {
	AtNS int64      `json:"at_ns"`
	From netip.Addr `json:"from"`
	BPS  float64    `json:"goodput_bps"` // goodput since the line before
	load.Received
	Dropped uint64
	BadICRC uint64
}

func serve(cmd *cobra.Command, ep *load.Endpoint, c *common, duration time.Duration) error {
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	var end <-chan time.Time
	if duration > 0 {
		end = time.After(duration)
	}
	start, last := time.Now(), time.Now()
	before := map[netip.Addr]load.Received{}
	for {
		running := true
		select {
		case <-tick.C:
		case <-end:
			running = false
		case <-cmd.Context().Done():
			running = false
		}
		now := time.Now()
		got, count := ep.Received(), ep.Counters()
		var damaged uint64
		for _, from := range slices.SortedFunc(maps.Keys(got), netip.Addr.Compare) {
			r := got[from]
			damaged += r.Mismatches + r.Invalid
			if r == before[from] && running {
				continue
			}
			a := arrival{
				AtNS: int64(now.Sub(start)), From: from, Received: r, Dropped: count.Dropped, BadICRC: count.BadICRC,
				BPS: float64(r.Bytes-before[from].Bytes) * 8 / now.Sub(last).Seconds(),
			}
			if err := a.print(cmd.OutOrStdout(), c.json); err != nil {
				return compare.Failure(err)
			}
		}
		before, last = got, now
		if !running {
			if damaged > 0 {
				return compare.Failure(fmt.Errorf("%d packets held the wrong data", damaged))
			}
			return nil
		}
	}
}

func (a *arrival) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(a)
	}
	_, err := fmt.Fprintf(w, "%8.3fs  from %-15s %9.2f Mbit/s  %12d bytes ok, %d wrong  (ahead %d, duplicate %d, bad ICRC %d, dropped %d)\n",
		time.Duration(a.AtNS).Seconds(), a.From, a.BPS/1e6, a.Bytes, a.Mismatches+a.Invalid, a.Ahead, a.Duplicates, a.BadICRC, a.Dropped)
	return err
}
