// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/mempool/lease"
)

// writeStatus prints the state of a pool.
func writeStatus(w io.Writer, s lease.Status) error {
	bytes := func(slabs int) string { return cli.Bytes(uint64(slabs) * s.SlabBytes) }
	fmt.Fprintf(w, "pool: %s in %d slabs of %s, %s free", bytes(s.Slabs), s.Slabs, cli.Bytes(s.SlabBytes), bytes(s.Free))
	if s.Closing > 0 {
		fmt.Fprintf(w, ", %s being zeroed", bytes(s.Closing))
	}
	if s.Broken > 0 {
		fmt.Fprintf(w, ", %s lost: restart the server", bytes(s.Broken))
	}
	fmt.Fprintf(w, "\nslabs since the start: %d returned, %d revoked\n", s.Counts.Returned, s.Counts.Revoked)
	if len(s.Nodes) == 0 {
		_, err := fmt.Fprintln(w, "no nodes")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tSTATE\tPERIOD\tDEMAND\tUSED\tEXPECTED\tBY\tPLANNED\tLEASED\tTO RETURN")
	for _, n := range s.Nodes {
		state := "connected"
		if !n.Connected {
			state = "away, kept for " + n.Expires.Round(time.Second).String()
		}
		fmt.Fprintf(t, "%s\t%s\t%d of %v\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, state, n.Period, n.Length, cli.Bytes(n.Demand),
			cli.Bytes(n.Used), cli.Bytes(n.Expected.Need), n.Expected.By, bytes(n.Planned), bytes(n.Slabs), bytes(n.Returning))
	}
	return t.Flush()
}
