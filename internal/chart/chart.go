// SPDX-License-Identifier: Apache-2.0

// Package chart turns what an experiment measured into a picture (SVG) and a text
// table. Pictures are deterministic and small, and need no colours to be read.
package chart

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Point is one value of a series.
type Point struct {
	At    time.Duration // time since the start of the experiment
	Value float64
}

// Series is a line in a panel: the mean of its points in short stretches of time.
// The area behind the line reaches from their least to their greatest value. Several
// points may have one time, such as the rates of several flows.
type Series struct {
	Name   string // name for the legend; a name has one style in all panels
	Points []Point
	Style  int
	Bold   bool
}

// Level is a horizontal line, such as a limit.
type Level struct {
	Value float64
	Text  string
}

// Panel is one diagram.
type Panel struct {
	Title string
	Unit  string // unit of the values; panels of one unit share the axis
	Lines []Series
	// LogFrom is where a logarithmic axis begins; smaller values are drawn there. 0 is
	// a linear axis from 0.
	LogFrom float64
	Levels  []Level
}

// Mark is a vertical line at a moment in all panels: "receiver A slowed".
type Mark struct {
	At   time.Duration
	Text string
}

// Figure is a picture of panels, row by row, that share the time axis.
type Figure struct {
	Title   string
	Note    string // text below the title: how to read it
	Panels  []Panel
	Columns int  // columns of panels, 0 = 1
	Small   bool // panels of little height, for many
	Marks   []Mark
}

// WriteSVG draws the figure.
func (f *Figure) WriteSVG(w io.Writer) error {
	if len(f.Panels) == 0 {
		return errors.New("chart: a figure without panels")
	}
	out := page{title: f.Title, note: f.Note, columns: max(1, min(f.Columns, len(f.Panels))), height: 160}
	if f.Small {
		out.height = 92
	}
	axes := f.axes()
	stretch := 3.5 * (axes.to - axes.from) / float64((width-2*margin)/vg.Length(out.columns))
	for i, panel := range f.Panels {
		p := newPlot(panel.Title, panel.Unit)
		for _, s := range panel.Lines {
			out.legend.add(s.Name, s.Style, s.Bold)
			if err := s.add(p, axes.unit, panel.LogFrom, stretch); err != nil {
				return fmt.Errorf("chart: panel %q: line %q: %w", panel.Title, s.Name, err)
			}
		}
		// The last panel of a column has the labels of the time.
		ticks := timeTicks{labelled: i+out.columns >= len(f.Panels), dense: out.columns == 1}
		if p.X.Tick.Marker = ticks; ticks.labelled {
			p.X.Label.Text = "time, " + axes.name
		}
		axes.set(p, panel)
		for _, l := range panel.Levels {
			y := max(l.Value, p.Y.Min)
			reference(p, plotter.XY{X: p.X.Min, Y: y}, plotter.XY{X: p.X.Max, Y: y}, l.Text)
		}
		for _, m := range f.Marks {
			x := m.At.Seconds() / axes.unit
			reference(p, plotter.XY{X: x, Y: p.Y.Min}, plotter.XY{X: x, Y: p.Y.Max}, m.Text)
		}
		out.plots = append(out.plots, p)
	}
	return out.write(w)
}

// axes are what the panels share: the time, and the values of each unit.
type axes struct {
	name     string
	unit     float64 // unit of the time, in seconds
	from, to float64 // limits of the time axis, in this unit
	top      map[string]float64
}

func (f *Figure) axes() axes {
	a := axes{name: "s", unit: 1, from: math.Inf(1), to: math.Inf(-1), top: map[string]float64{}}
	for _, p := range f.Panels {
		for _, l := range p.Levels {
			a.top[p.Unit] = max(a.top[p.Unit], l.Value)
		}
		for _, s := range p.Lines {
			for _, pt := range s.Points {
				a.from, a.to = min(a.from, pt.At.Seconds()), max(a.to, pt.At.Seconds())
				a.top[p.Unit] = max(a.top[p.Unit], pt.Value)
			}
		}
	}
	if a.from >= a.to {
		a.from, a.to = 0, 1
	}
	switch {
	case a.to < 2e-3:
		a.name, a.unit = "us", 1e-6
	case a.to < 2:
		a.name, a.unit = "ms", 1e-3
	}
	a.from, a.to = a.from/a.unit, a.to/a.unit
	if a.from < (a.to-a.from)/20 {
		a.from = 0
	}
	return a
}

// set sets the axes of a panel's plot.
func (a axes) set(p *plot.Plot, panel Panel) {
	p.X.Min, p.X.Max = a.from, a.to
	top := a.top[panel.Unit]
	switch {
	case panel.LogFrom > 0:
		p.Y.Min, p.Y.Max = panel.LogFrom, max(top*1.5, panel.LogFrom*10)
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	case top == 0:
		p.Y.Min, p.Y.Max = 0, 1
	default:
		p.Y.Min, p.Y.Max = 0, top*1.05
	}
}

// timeTicks are the library's, with its minor ones in a wide panel. Without labels
// there is a space at each, for the grid.
type timeTicks struct{ labelled, dense bool }

// Ticks implements plot.Ticker.
func (t timeTicks) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i, tick := range ticks {
		switch {
		case tick.IsMinor() && !t.dense:
		case t.labelled:
			ticks[i].Label = strconv.FormatFloat(math.Round(tick.Value*1e6)/1e6+0, 'g', 6, 64)
		default:
			ticks[i].Label = " "
		}
	}
	return ticks
}

// reference draws a straight line, such as a limit, with a text at its end: above a
// level, right of a mark.
func reference(p *plot.Plot, from, to plotter.XY, words string) {
	style, offset := textStyle(7, false), vg.Point{X: 3}
	style.YAlign, style.Color = draw.YTop, grey
	if from.Y == to.Y {
		style.XAlign, style.YAlign, offset = draw.XRight, draw.YBottom, vg.Point{X: -2, Y: 2}
	}
	p.Add(&plotter.Line{XYs: plotter.XYs{from, to}, LineStyle: draw.LineStyle{Color: grey, Width: .8, Dashes: []vg.Length{4, 2}}},
		&plotter.Labels{XYs: plotter.XYs{to}, Labels: []string{words}, TextStyle: []text.Style{style}, Offset: offset})
}

// summary is the points of one stretch of time.
type summary struct{ at, mean, low, high float64 }

// summaries averages points over stretches of the time.
func summaries(points plotter.XYs, stretch float64) (all []summary) {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
	for len(points) > 0 {
		bin := math.Floor(points[0].X / stretch)
		n := slices.IndexFunc(points, func(p plotter.XY) bool { return math.Floor(p.X/stretch) != bin })
		if n < 0 {
			n = len(points)
		}
		s := summary{low: math.Inf(1), high: math.Inf(-1)}
		for _, p := range points[:n] {
			s.at += p.X / float64(n)
			s.mean += p.Y / float64(n)
			s.low, s.high = min(s.low, p.Y), max(s.high, p.Y)
		}
		all, points = append(all, s), points[n:]
	}
	return all
}

// glyphsEvery is how many stretches are between two glyphs of a line.
const glyphsEvery = 16

// add adds the line and the area behind it. Values below least are drawn there.
func (s Series) add(p *plot.Plot, unit, least, stretch float64) error {
	var points plotter.XYs
	for _, pt := range s.Points {
		if err := plotter.CheckFloats(pt.Value); err != nil {
			return err
		}
		points = append(points, plotter.XY{X: pt.At.Seconds() / unit, Y: max(pt.Value, least)})
	}
	for _, run := range unbroken(summaries(points, stretch), stretch) {
		l, glyphs := line(s.Style, s.Bold)
		var upper, lower plotter.XYs
		for i, x := range run {
			l.XYs = append(l.XYs, plotter.XY{X: x.at, Y: x.mean})
			upper, lower = append(upper, plotter.XY{X: x.at, Y: x.high}), append(lower, plotter.XY{X: x.at, Y: x.low})
			// Lines that lie on each other have their glyphs at different places.
			if i%glyphsEvery == min(5*s.Style%glyphsEvery, len(run)-1) {
				glyphs.XYs = append(glyphs.XYs, l.XYs[i])
			}
		}
		slices.Reverse(lower)
		r, g, b, _ := l.Color.RGBA()
		area := &plotter.Polygon{XYs: []plotter.XYs{append(upper, lower...)}, Color: color.NRGBA64{uint16(r), uint16(g), uint16(b), 0x3800}}
		p.Add(area, l, glyphs)
	}
	return nil
}

// unbroken splits a series where nothing was measured for much longer than usual.
func unbroken(all []summary, stretch float64) (runs [][]summary) {
	var gaps []float64
	for i := 1; i < len(all); i++ {
		gaps = append(gaps, all[i].at-all[i-1].at)
	}
	if len(all) == 0 {
		return nil
	}
	usual := slices.Sorted(slices.Values(gaps))
	from := 0
	for i, gap := range gaps {
		if gap > max(8*stretch, 4*usual[len(usual)/2]) {
			runs, from = append(runs, all[from:i+1]), i+1
		}
	}
	return append(runs, all[from:])
}
