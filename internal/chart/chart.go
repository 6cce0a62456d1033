// SPDX-License-Identifier: Apache-2.0

// Package chart turns what an experiment measured into a picture (PNG) and a text
// table.
package chart

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// Point is one value of a series.
type Point struct {
	At    time.Duration // since the start of the experiment
	Value float64
}

// Series is a line in a panel.
type Series struct {
	Name   string
	Points []Point
	Color  int  // lines of one thing have one colour in all panels
	Dashed bool // a reference, such as a bottleneck's rate
}

// Panel is one diagram; all panels of a figure share the time axis.
type Panel struct {
	Title string
	Unit  string // of the values, for the axis
	Lines []Series
}

// Mark is a vertical line at a moment in all panels: "receiver A slowed".
type Mark struct {
	At   time.Duration
	Text string
}

// Figure is a picture of panels, row by row.
type Figure struct {
	Title   string
	Panels  []Panel
	Columns int  // of panels, 0 = 1
	Small   bool // panels of little height, for many
	Marks   []Mark
}

const (
	width       = 24 * vg.Centimeter
	panelHeight = 7 * vg.Centimeter
	smallHeight = 4.5 * vg.Centimeter
)

// WritePNG draws the figure.
func (f *Figure) WritePNG(w io.Writer) error {
	if len(f.Panels) == 0 {
		return errors.New("chart: a figure without panels")
	}
	from, to := f.span()
	axis := axisFor(to)
	height := panelHeight
	if f.Small {
		height = smallHeight
	}
	grid := newGrid(f.Columns, len(f.Panels), height)
	for i, panel := range f.Panels {
		p, err := f.plot(panel, from/axis.unit, to/axis.unit, axis)
		if err != nil {
			return fmt.Errorf("chart: panel %q: %w", panel.Title, err)
		}
		if i == 0 && f.Title != "" {
			p.Title.Text = f.Title + "\n" + p.Title.Text
		}
		if i >= len(f.Panels)-grid.columns {
			p.X.Label.Text = "time (" + axis.name + ")"
		}
		grid.add(p)
	}
	return grid.writePNG(w)
}

// axis is the unit of the time axis, in seconds.
type axis struct {
	name string
	unit float64
}

func axisFor(to float64) axis {
	switch {
	case to < 2e-3:
		return axis{"us", 1e-6}
	case to < 2:
		return axis{"ms", 1e-3}
	}
	return axis{"s", 1}
}

// span is the time that the panels cover, in seconds.
func (f *Figure) span() (from, to float64) {
	from, to = math.Inf(1), math.Inf(-1)
	for _, p := range f.Panels {
		for _, s := range p.Lines {
			for _, pt := range s.Points {
				from, to = min(from, pt.At.Seconds()), max(to, pt.At.Seconds())
			}
		}
	}
	if from > to {
		return 0, 1
	}
	return from, to
}

func (f *Figure) plot(panel Panel, from, to float64, axis axis) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = panel.Title
	p.Y.Label.Text = panel.Unit
	p.X.Min, p.X.Max = from, to
	p.Y.Min = 0
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	top, named := 0.0, 0
	for _, s := range panel.Lines {
		if len(s.Points) == 0 {
			continue
		}
		xys := make(plotter.XYs, len(s.Points))
		for i, pt := range s.Points {
			xys[i] = plotter.XY{X: pt.At.Seconds() / axis.unit, Y: pt.Value}
			top = max(top, pt.Value)
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", s.Name, err)
		}
		line.Color = plotutil.Color(s.Color)
		line.Width = vg.Points(1)
		if s.Dashed {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(line)
		if s.Name != "" {
			named++
			p.Legend.Add(s.Name, line)
		}
	}
	// Room for the legend and for the marks' texts.
	p.Y.Max = max(p.Y.Max, top*(1.2+.12*float64(named)))
	if p.Y.Max <= p.Y.Min {
		p.Y.Max = p.Y.Min + 1
	}
	return p, f.mark(p, axis)
}

// mark draws the marks over the whole height of a plot.
func (f *Figure) mark(p *plot.Plot, axis axis) error {
	for _, m := range f.Marks {
		x := m.At.Seconds() / axis.unit
		line, err := plotter.NewLine(plotter.XYs{{X: x, Y: p.Y.Min}, {X: x, Y: p.Y.Max}})
		if err != nil {
			return fmt.Errorf("mark %q: %w", m.Text, err)
		}
		line.Color = color.Gray{Y: 110}
		text, err := plotter.NewLabels(plotter.XYLabels{
			XYs: plotter.XYs{{X: x, Y: p.Y.Max - (p.Y.Max-p.Y.Min)*.07}}, Labels: []string{" " + m.Text}})
		if err != nil {
			return fmt.Errorf("mark %q: %w", m.Text, err)
		}
		p.Add(line, text)
	}
	return nil
}
