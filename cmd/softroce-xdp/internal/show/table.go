// SPDX-License-Identifier: Apache-2.0

// Package show has the commands that show what is attached: status, table, top, stats and metrics.
package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/cmd/internal/view"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/nodefile"
)

// Commands makes the commands that show what is attached.
func Commands(a *host.App) []*cobra.Command {
	return []*cobra.Command{newStatus(a), newTable(a), newTop(a), newStats(a), newMetrics(a)}
}

func newTable(a *host.App) *cobra.Command {
	var out cli.Output
	key := cli.Choice{Value: "node", Of: view.SortKeys()}
	cmd := &cobra.Command{
		Use:   "table [IF]",
		Short: "Show the destination table",
		Long: `Table shows every destination with its times, the decisions of the policy, and its
counters. The interface may be left out if one is attached. With --json every
register is there, in nanoseconds and bits per second.

Columns:
` + columnHelp(),
		Args:              cli.Takes(0, 1),
		ValidArgsFunction: a.CompleteAttached,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.One(args)
			if err != nil {
				return err
			}
			var before *view.Table
			return out.Show(cmd, func() (any, func(io.Writer), error) {
				t, err := readTable(a, name, before, key.Value)
				if err != nil {
					return nil, nil, err
				}
				if out.Watch {
					before = t
				}
				return t, func(w io.Writer) { view.WriteTable(w, t) }, nil
			})
		},
	}
	out.Flags(cmd)
	cmd.Flags().Var(&key, "sort", "column to sort by: "+strings.Join(key.Of, ", "))
	return cmd
}

// readTable takes a snapshot. The attachment is opened each time, so that one
// that ends is noticed.
func readTable(a *host.App, name string, before *view.Table, key string) (*view.Table, error) {
	att, err := loader.Open(name, a.Options())
	if err != nil {
		return nil, err
	}
	defer att.Close()
	rows, err := att.Rows()
	if err != nil {
		return nil, err
	}
	t := view.TableOf(name, rows, time.Now(), before)
	if att.State.NodeFile != "" {
		// One that has become unreadable since attach is the agent's to report.
		nodes, _ := nodefile.Read(att.State.NodeFile)
		t.SetPriorities(nodes)
	}
	return t, t.Sort(key)
}

func columnHelp() string {
	var b strings.Builder
	for _, c := range view.Columns {
		fmt.Fprintf(&b, "  %-10s %s", c.Head, c.Text)
		if c.Live {
			b.WriteString(" (with --watch)")
		}
		if c.Priority {
			b.WriteString(" (where the node file gives priorities)")
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}
