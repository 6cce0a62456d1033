// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Table is a table of text; numbers are formatted by the caller.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
}

// WriteText writes the table in aligned columns.
func (t *Table) WriteText(w io.Writer) error {
	if t.Title != "" {
		if _, err := fmt.Fprintln(w, t.Title); err != nil {
			return fmt.Errorf("chart: %w", err)
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		for _, cell := range row {
			fmt.Fprintf(tw, "%s\t", cell)
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	return nil
}
