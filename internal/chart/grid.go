// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// grid is plots in rows, with their axes in line.
type grid struct {
	columns int
	height  vg.Length
	rows    [][]*plot.Plot
}

func newGrid(columns, plots int, height vg.Length) *grid {
	return &grid{columns: max(1, min(columns, plots)), height: height}
}

func (g *grid) add(p *plot.Plot) {
	if n := len(g.rows); n == 0 || len(g.rows[n-1]) == g.columns {
		g.rows = append(g.rows, nil)
	}
	last := &g.rows[len(g.rows)-1]
	*last = append(*last, p)
}

func (g *grid) writePNG(w io.Writer) error {
	last := &g.rows[len(g.rows)-1]
	for len(*last) < g.columns {
		*last = append(*last, emptyPlot())
	}
	img := vgimg.New(width, g.height*vg.Length(len(g.rows)))
	tiles := draw.Tiles{Rows: len(g.rows), Cols: g.columns, PadX: 4 * vg.Millimeter, PadY: 2 * vg.Millimeter,
		PadTop: 4 * vg.Millimeter, PadBottom: 2 * vg.Millimeter, PadLeft: 2 * vg.Millimeter, PadRight: 4 * vg.Millimeter}
	canvases := plot.Align(g.rows, tiles, draw.New(img))
	for i, row := range g.rows {
		for j, p := range row {
			p.Draw(canvases[i][j])
		}
	}
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(w); err != nil {
		return fmt.Errorf("chart: write picture: %w", err)
	}
	return nil
}
