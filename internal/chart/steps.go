// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"errors"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// Steps is a picture of values for a few named steps, such as sizes of messages:
// panels row by row with one axis for all values, a line for each series.
type Steps struct {
	Title   string
	Unit    string   // unit of the values
	Names   []string // names of the steps, on the horizontal axis
	Of      string   // kind of the steps
	Columns int      // columns of panels, 0 = 1
	Log     bool     // the values' axis is logarithmic
	Panels  []StepPanel
}

// StepPanel is one diagram of a Steps.
type StepPanel struct {
	Title string
	Lines []StepSeries
}

// StepSeries is a line: a value for each step, NaN where there is none.
type StepSeries struct {
	Name   string
	Values []float64
	Style  int
	Bold   bool
}

// WriteSVG draws the picture.
func (s *Steps) WriteSVG(w io.Writer) error {
	if len(s.Panels) == 0 {
		return errors.New("chart: a picture without panels")
	}
	out := page{title: s.Title, columns: max(1, min(s.Columns, len(s.Panels))), height: 235}
	for _, panel := range s.Panels {
		p := newPlot(panel.Title, s.Unit)
		for _, l := range panel.Lines {
			out.legend.add(l.Name, l.Style, l.Bold)
			s.add(p, l)
		}
		s.axes(p)
		out.plots = append(out.plots, p)
	}
	return out.write(w)
}

// add adds a line; a step without a value ends it, and the next one begins another.
func (s *Steps) add(p *plot.Plot, series StepSeries) {
	var run plotter.XYs
	for i := range len(series.Values) + 1 {
		if i < len(series.Values) && s.has(series.Values[i]) {
			run = append(run, plotter.XY{X: float64(i), Y: series.Values[i]})
		} else if len(run) > 0 {
			l, glyphs := line(series.Style, series.Bold)
			l.XYs, glyphs.XYs, run = run, run, nil
			p.Add(l, glyphs)
		}
	}
}

// has says whether a value can be drawn.
func (s *Steps) has(v float64) bool { return !math.IsNaN(v) && (v > 0 || !s.Log) }

// axes sets the axes, which are the same in all panels.
func (s *Steps) axes(p *plot.Plot) {
	p.X.Label.Text = s.Of
	p.X.Min, p.X.Max, p.X.Tick.Marker = -.3, float64(len(s.Names))-.7, named(s.Names)
	low, high := math.Inf(1), math.Inf(-1)
	for _, panel := range s.Panels {
		for _, l := range panel.Lines {
			for _, v := range l.Values {
				if s.has(v) {
					low, high = min(low, v), max(high, v)
				}
			}
		}
	}
	switch {
	case low > high: // no value at all
		p.Y.Min, p.Y.Max = 0, 1
	case s.Log:
		p.Y.Min, p.Y.Max, p.Y.Scale, p.Y.Tick.Marker = low*.9, high*1.1, plot.LogScale{}, oneTwoFive{}
	default:
		p.Y.Min, p.Y.Max = 0, max(high*1.05, 1e-9)
	}
}

// oneTwoFive labels a logarithmic axis at 1, 2, 5, 10, 20 and so on.
type oneTwoFive struct{}

// Ticks implements plot.Ticker.
func (oneTwoFive) Ticks(low, high float64) (ticks []plot.Tick) {
	for e := math.Floor(math.Log10(low)); math.Pow(10, e) <= high; e++ {
		for _, digit := range []float64{1, 2, 5} {
			if v := digit * math.Pow(10, e); v >= low && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 6, 64)})
			}
		}
	}
	return ticks
}
