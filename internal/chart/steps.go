// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"errors"
	"fmt"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// Steps is a picture of values for a few named steps, such as sizes of messages:
// one panel above the other, one line for each series.
type Steps struct {
	Title   string
	Names   []string // of the steps, on the horizontal axis
	Columns int      // of panels, 0 = 1
	Panels  []StepPanel
}

// StepPanel is one diagram of a Steps.
type StepPanel struct {
	Title string
	Unit  string
	Log   bool // the values' axis is logarithmic
	Lines []StepSeries
}

// StepSeries is a line: a value for each step, NaN where there is none.
type StepSeries struct {
	Name   string
	Values []float64
	Color  int
	Dashed bool
}

// WritePNG draws the picture.
func (s *Steps) WritePNG(w io.Writer) error {
	if len(s.Panels) == 0 {
		return errors.New("chart: a picture without panels")
	}
	grid := newGrid(s.Columns, len(s.Panels), panelHeight)
	for i, panel := range s.Panels {
		p, err := s.plot(panel)
		if err != nil {
			return fmt.Errorf("chart: panel %q: %w", panel.Title, err)
		}
		if i == 0 && s.Title != "" {
			p.Title.Text = s.Title + "\n" + p.Title.Text
		}
		grid.add(p)
	}
	return grid.writePNG(w)
}

func (s *Steps) plot(panel StepPanel) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = panel.Title
	p.Y.Label.Text = panel.Unit
	p.Legend.Top = true
	p.Legend.Left = true
	p.Add(plotter.NewGrid())
	p.NominalX(s.Names...)
	low, high := math.Inf(1), math.Inf(-1)
	for _, line := range panel.Lines {
		var xys plotter.XYs
		for i, v := range line.Values {
			if !math.IsNaN(v) && (v > 0 || !panel.Log) {
				xys = append(xys, plotter.XY{X: float64(i), Y: v})
				low, high = min(low, v), max(high, v)
			}
		}
		if len(xys) == 0 {
			continue
		}
		l, points, err := plotter.NewLinePoints(xys)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line.Name, err)
		}
		l.Color, points.Color = plotutil.Color(line.Color), plotutil.Color(line.Color)
		l.Width, points.Shape = vg.Points(1), plotutil.Shape(line.Color)
		if line.Dashed {
			l.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(l, points)
		p.Legend.Add(line.Name, l, points)
	}
	if low > high {
		return p, nil
	}
	room := 1 + .06*float64(len(panel.Lines)) // for the legend
	if panel.Log {
		p.Y.Scale = plot.LogScale{}
		p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
		p.Y.Min = low * .9
		p.Y.Max = high * math.Pow(max(high/low, 1.5), room-1) * 1.1
	} else {
		p.Y.Min = 0
		p.Y.Max = max(high*room*1.1, 1e-9)
	}
	return p, nil
}
