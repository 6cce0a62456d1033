// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// Steps is a picture of values for a few named steps, such as sizes of messages:
// panels row by row, one line for each series. The series are the same in all
// panels; what line is whose stands right of the first row.
type Steps struct {
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
	columns := max(1, s.Columns)
	grid := newGrid(columns+1, len(s.Panels)+1, panelHeight)
	for i, panel := range s.Panels {
		p, legend, err := s.plot(panel)
		if err != nil {
			return fmt.Errorf("chart: panel %q: %w", panel.Title, err)
		}
		grid.add(p)
		if (i+1)%columns == 0 || i == len(s.Panels)-1 {
			if i >= columns {
				legend = emptyPlot()
			}
			grid.add(legend)
		}
	}
	return grid.writePNG(w)
}

// plot draws a panel, and its legend by itself.
func (s *Steps) plot(panel StepPanel) (p, legend *plot.Plot, err error) {
	p, legend = plot.New(), emptyPlot()
	legend.Legend.Top, legend.Legend.Left = true, true
	p.Title.Text = panel.Title
	p.Y.Label.Text = panel.Unit
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
			return nil, nil, fmt.Errorf("line %q: %w", line.Name, err)
		}
		l.Color, points.Color = plotutil.Color(line.Color), plotutil.Color(line.Color)
		l.Width, points.Shape = vg.Points(1), plotutil.Shape(line.Color)
		if line.Dashed {
			l.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(l, points)
		legend.Legend.Add(line.Name, l, points)
	}
	switch {
	case low > high: // no line at all
	case panel.Log:
		p.Y.Scale = plot.LogScale{}
		p.Y.Tick.Marker = oneTwoFive{}
		p.Y.Min, p.Y.Max = low*.9, high*1.1
	default:
		p.Y.Min, p.Y.Max = 0, max(high*1.1, 1e-9)
	}
	return p, legend, nil
}

func emptyPlot() *plot.Plot {
	p := plot.New()
	p.HideAxes()
	return p
}

// oneTwoFive labels a logarithmic axis at 1, 2, 5, 10, 20 and so on.
type oneTwoFive struct{}

func (oneTwoFive) Ticks(low, high float64) (ticks []plot.Tick) {
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		for digit := 1.0; digit < 10; digit++ {
			v := digit * decade
			if v < low || v > high {
				continue
			}
			tick := plot.Tick{Value: v}
			if digit == 1 || digit == 2 || digit == 5 {
				tick.Label = strconv.FormatFloat(v, 'g', -1, 64)
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}
