// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"errors"
	"fmt"
	"io"
)

// Heat is a table whose cells are darker the worse they are. Each has its text.
type Heat struct {
	Title   string
	Notes   []string // below the table: how to read it
	Columns []string
	Rows    []HeatRow
}

// HeatRow is a row of a Heat.
type HeatRow struct {
	Name  string
	Cells []HeatCell
}

// HeatCell is a value; Level says how dark it is, from 0 (white) to MostHeat.
type HeatCell struct {
	Text  string
	Level int
}

// MostHeat is the darkest level.
const MostHeat = 4

const (
	heatRow  = 26.0
	heatName = 250.0
)

// WriteSVG draws the table.
func (h *Heat) WriteSVG(w io.Writer) error {
	if len(h.Columns) == 0 || len(h.Rows) == 0 {
		return errors.New("chart: a table without cells")
	}
	c := &canvas{width: width}
	y := c.head(h.Title, "", nil)
	cell := (width - heatName - 2*margin - 50) / float64(len(h.Columns))
	longest := 0.0
	for _, name := range h.Columns {
		longest = max(longest, textWidth(name, 12))
	}
	y += longest*.64 + 16 // sine of 40 degrees
	for i, name := range h.Columns {
		x := margin + heatName + cell*(float64(i)+.45)
		c.text(x, y-8, left, fmt.Sprintf(`class="bold" transform="rotate(-40 %s %s)"`, number(x), number(y-8)), name)
	}
	for _, row := range h.Rows {
		c.text(margin+heatName-8, y+heatRow*.67, right, "", row.Name)
		for i, one := range row.Cells {
			level := max(0, min(one.Level, MostHeat))
			x := margin + heatName + cell*float64(i)
			c.rect(x, y, cell, heatRow, fmt.Sprintf(`class="heat heat%d"`, level))
			class := [MostHeat + 1]string{"", `class="bold"`, `class="bold"`, `class="light"`, `class="light"`}[level]
			c.text(x+cell/2, y+heatRow*.67, centre, class, one.Text)
		}
		y += heatRow
	}
	y += 8
	for _, note := range h.Notes {
		y += 16
		c.text(margin, y, left, `class="note"`, note)
	}
	c.height = y + margin
	return c.write(w, h.Title)
}
