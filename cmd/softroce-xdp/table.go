// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/view"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/nodefile"
)

func newTable(a *app) *cobra.Command {
	var out output
	key := choice{value: "node", of: view.SortKeys()}
	cmd := &cobra.Command{
		Use:   "table [IF]",
		Short: "Show the destination table",
		Long: `Table shows every destination with its times, the decisions of the policy, and its
counters. The interface may be left out if one is attached. With --json every
register is there, in nanoseconds and bits per second.

Columns:
` + columnHelp(),
		Args:              takes(0, 1),
		ValidArgsFunction: a.completeAttached,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.one(args)
			if err != nil {
				return err
			}
			var before *view.Table
			return out.show(cmd, func() (any, func(io.Writer), error) {
				t, err := a.readTable(name, before, key.value)
				if err != nil {
					return nil, nil, err
				}
				if out.watch {
					before = t
				}
				return t, func(w io.Writer) { writeTable(w, t) }, nil
			})
		},
	}
	out.flags(cmd)
	cmd.Flags().Var(&key, "sort", "column to sort by: "+strings.Join(key.of, ", "))
	return cmd
}

// readTable takes a snapshot. The attachment is opened each time, so that one
// that ends is noticed.
func (a *app) readTable(name string, before *view.Table, key string) (*view.Table, error) {
	att, err := loader.Open(name, a.options())
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

func writeTable(w io.Writer, t *view.Table) {
	if len(t.Destinations) == 0 {
		fmt.Fprintf(w, "%s: no destination yet; one appears with the first RoCEv2 packet sent to it\n", t.Interface)
		return
	}
	for _, l := range view.Align(t.Cells()) {
		fmt.Fprintln(w, l)
	}
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
