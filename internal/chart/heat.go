// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"errors"
	"image/color"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Heat is a table whose cells are darker the worse they are. Each has its text.
type Heat struct {
	Title   string
	Notes   []string // lines below the title: how to read it
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

var heat = [MostHeat + 1]color.Color{color.White, color.RGBA{0xfd, 0xe0, 0xc5, 255}, color.RGBA{0xf8, 0xa4, 0x74, 255}, color.RGBA{0xd1, 0x49, 0x5b, 255}, color.RGBA{0x6b, 0x1d, 0x3c, 255}}

// WriteSVG draws the table.
func (h *Heat) WriteSVG(w io.Writer) error {
	if len(h.Columns) == 0 || len(h.Rows) == 0 {
		return errors.New("chart: a table without cells")
	}
	p, names := newPlot("", ""), make([]string, len(h.Rows))
	for y, row := range h.Rows {
		names[y] = row.Name
		for x, cell := range row.Cells {
			cell.add(p, float64(x), float64(y))
		}
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = named(h.Columns), named(names)
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/6, draw.XRight, draw.YCenter
	p.X.Width, p.Y.Width = 0, 0
	p.X.Padding, p.Y.Padding = 10, 6
	p.X.Min, p.X.Max = -.5, float64(len(h.Columns))-.5
	p.Y.Min, p.Y.Max = -.5, float64(len(h.Rows))-.5
	p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	const row, columnNames = 19, 70
	return (&page{title: h.Title, note: strings.Join(h.Notes, "\n"), columns: 1, plots: []*plot.Plot{p}, height: columnNames + row*vg.Length(len(h.Rows))}).write(w)
}

// named labels 0, 1 and so on with names.
func named(names []string) plot.ConstantTicks {
	ticks := make(plot.ConstantTicks, len(names))
	for i, n := range names {
		ticks[i] = plot.Tick{Value: float64(i), Label: n}
	}
	return ticks
}

// add draws a cell at its column and row.
func (cell HeatCell) add(p *plot.Plot, x, y float64) {
	level := max(0, min(cell.Level, MostHeat))
	style := textStyle(8, level > 0)
	style.XAlign, style.YAlign = draw.XCenter, draw.YCenter
	if level > MostHeat/2 {
		style.Color = color.White
	}
	box := plotter.XYs{{X: x - .5, Y: y - .5}, {X: x + .5, Y: y - .5}, {X: x + .5, Y: y + .5}, {X: x - .5, Y: y + .5}}
	p.Add(&plotter.Polygon{XYs: []plotter.XYs{box}, Color: heat[level], LineStyle: draw.LineStyle{Color: color.Gray{0x99}, Width: .5}},
		&plotter.Labels{XYs: plotter.XYs{{X: x, Y: y}}, Labels: []string{cell.Text}, TextStyle: []text.Style{style}, Offset: vg.Point{Y: style.FontExtents().Descent}})
}
