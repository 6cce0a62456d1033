// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Align pads cells to columns. Texts stand left, numbers right: a column is one
// of numbers if its cells below the head are.
func Align(lines [][]string) []string {
	if len(lines) == 0 {
		return nil
	}
	width, right := make([]int, len(lines[0])), make([]bool, len(lines[0]))
	for j := range width {
		right[j] = len(lines) > 1
		for i, l := range lines {
			width[j] = max(width[j], utf8.RuneCountInString(l[j]))
			if i > 0 && !numeric(l[j]) {
				right[j] = false
			}
		}
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		var b strings.Builder
		for j, cell := range l {
			if j > 0 {
				b.WriteString("  ")
			}
			pad := strings.Repeat(" ", width[j]-utf8.RuneCountInString(cell))
			if right[j] {
				b.WriteString(pad + cell)
			} else {
				b.WriteString(cell + pad)
			}
		}
		out[i] = strings.TrimRight(b.String(), " ")
	}
	return out
}

// numeric accepts numbers with their unit, and the dash that stands for none.
func numeric(s string) bool {
	s = strings.TrimLeft(s, "+-")
	return s == "" || s[0] >= '0' && s[0] <= '9' && strings.Count(s, ".") < 2 && !strings.Contains(s, ":")
}

// Pairs writes names and values, the values below one another.
func Pairs(w io.Writer, indent string, pairs [][2]string) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, p := range pairs {
		fmt.Fprintf(tw, "%s%s\t%s\n", indent, p[0], p[1])
	}
	tw.Flush()
}
