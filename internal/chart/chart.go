// SPDX-License-Identifier: Apache-2.0

// Package chart turns what an experiment measured into a picture (SVG) and a text
// table. Pictures are deterministic and small, and need no colours to be read.
package chart

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Point is one value of a series.
type Point struct {
	At    time.Duration // since the start of the experiment
	Value float64
}

// Series is a line in a panel: the mean of its points in short stretches of time.
// The area behind the line reaches from their least to their greatest value. Several
// points may have one time, such as the rates of several flows.
type Series struct {
	Name   string // for the legend; a name has one style in all panels
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
	Unit  string // of the values; panels of one unit share the axis
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
	Note    string // below the title: how to read it
	Panels  []Panel
	Columns int  // of panels, 0 = 1
	Small   bool // panels of little height, for many
	Marks   []Mark
}

const (
	width       = 1000.0
	panelHeight = 190.0
	smallHeight = 110.0
	margin      = 12.0
	panelLeft   = 44.0 // of a panel: the labels of its values
	panelTop    = 24.0 // its title
	panelBottom = 8.0
	axisHeight  = 34.0 // of the time axis below the last row
)

// WriteSVG draws the figure.
func (f *Figure) WriteSVG(w io.Writer) error {
	if len(f.Panels) == 0 {
		return errors.New("chart: a figure without panels")
	}
	if err := f.check(); err != nil {
		return err
	}
	columns := max(1, min(f.Columns, len(f.Panels)))
	rows := (len(f.Panels) + columns - 1) / columns
	height := panelHeight
	if f.Small {
		height = smallHeight
	}
	c := &canvas{width: width}
	y := c.head(f.Title, f.Note, f.legend())
	axis := f.time()
	cell := (width - 2*margin) / float64(columns)
	for i, p := range f.Panels {
		x, top := margin+cell*float64(i%columns), y+(height+panelTop+panelBottom)*float64(i/columns)
		axis.from, axis.to = x+panelLeft, x+cell-10
		v := f.values(p)
		v.from, v.to = top+panelTop+height, top+panelTop
		// The last panel of a column has the labels of the time.
		f.panel(c, p, axis, v, i+columns >= len(f.Panels))
	}
	c.height = y + (height+panelTop+panelBottom)*float64(rows) + axisHeight
	return c.write(w, f.Title)
}

// check refuses what has no place in a diagram.
func (f *Figure) check() error {
	for _, p := range f.Panels {
		for _, s := range p.Lines {
			for _, pt := range s.Points {
				if math.IsNaN(pt.Value) || math.IsInf(pt.Value, 0) {
					return fmt.Errorf("chart: panel %q: line %q: %v at %v is no number", p.Title, s.Name, pt.Value, pt.At)
				}
			}
		}
	}
	return nil
}

// legend lists the lines of all panels.
func (f *Figure) legend() (l legend) {
	for _, p := range f.Panels {
		for _, s := range p.Lines {
			l.add(entry{name: s.Name, style: s.Style, bold: s.Bold})
		}
	}
	return l
}

// head writes title, note and legend, and returns where the panels begin.
func (c *canvas) head(title, note string, l legend) float64 {
	y := margin
	if title != "" {
		y += 14
		c.text(margin, y, left, `class="title"`, title)
		y += 6
	}
	if note != "" {
		y += 14
		c.text(margin, y, left, `class="note"`, note)
		y += 4
	}
	for _, row := range l.rows(width - 2*margin) {
		y += 14
		x := margin
		for _, e := range row {
			e.draw(c, x, y)
			x += e.width()
		}
		y += 6
	}
	return y + 4
}

// timeAxis is the scale of the time in a unit.
type timeAxis struct {
	scale
	name string
	unit float64 // in seconds
}

func (a timeAxis) place(t time.Duration) float64 { return a.at(t.Seconds() / a.unit) }

// time is the axis of all panels, without its place.
func (f *Figure) time() timeAxis {
	from, to := math.Inf(1), math.Inf(-1)
	for _, p := range f.Panels {
		for _, s := range p.Lines {
			for _, pt := range s.Points {
				from, to = min(from, pt.At.Seconds()), max(to, pt.At.Seconds())
			}
		}
	}
	if from >= to {
		from, to = 0, 1
	}
	a := timeAxis{name: "s", unit: 1}
	switch {
	case to < 2e-3:
		a.name, a.unit = "us", 1e-6
	case to < 2:
		a.name, a.unit = "ms", 1e-3
	}
	a.min, a.max = from/a.unit, to/a.unit
	if a.min < (a.max-a.min)/20 {
		a.min = 0
	}
	return a
}

// values is the axis of a panel's values, without its place: that of all panels with
// the same unit.
func (f *Figure) values(of Panel) scale {
	s := scale{log: of.LogFrom > 0, min: of.LogFrom}
	for _, p := range f.Panels {
		if p.Unit != of.Unit {
			continue
		}
		for _, l := range p.Lines {
			for _, pt := range l.Points {
				s.max = max(s.max, pt.Value)
			}
		}
		for _, l := range p.Levels {
			s.max = max(s.max, l.Value)
		}
	}
	switch {
	case s.log:
		s.max = max(s.max*1.5, s.min*10)
	case s.max == 0:
		s.max = 1
	default:
		s.max = roundUp(s.max * 1.02)
	}
	return s
}

// panel draws one diagram.
func (f *Figure) panel(c *canvas, p Panel, t timeAxis, v scale, labelled bool) {
	c.text(t.from, v.to-8, left, `class="bold"`, p.Title)
	c.text(t.to, v.to-8, right, `class="note"`, p.Unit)
	c.frame(t.scale, v, int((v.from-v.to)/24))
	for _, at := range t.ticks(int((t.to - t.from) / 45)) {
		x := t.at(at)
		c.line(x, v.to, x, v.from, `class="grid"`)
		if labelled {
			c.text(x, v.from+15, centre, "", label(at))
		}
	}
	if labelled {
		c.text((t.from+t.to)/2, v.from+30, centre, `class="note"`, "time, "+t.name)
	}
	for _, s := range p.Lines {
		s.draw(c, t, v)
	}
	for _, l := range p.Levels {
		y := v.at(l.Value)
		c.line(t.from, y, t.to, y, `class="level"`)
		c.text(t.to-3, y-3, right, `class="note"`, l.Text)
	}
	for _, m := range f.Marks {
		x := t.place(m.At)
		c.line(x, v.to, x, v.from, `class="mark"`)
		c.text(x+4, v.to+12, left, `class="note"`, m.Text)
	}
}

// frame draws the frame of a diagram and the lines and labels of its values.
func (c *canvas) frame(x, v scale, ticks int) {
	for _, value := range v.ticks(max(2, ticks)) {
		y := v.at(value)
		c.line(x.from, y, x.to, y, `class="grid"`)
		c.text(x.from-5, y+4, right, "", label(value))
	}
	c.rect(x.from, v.to, x.to-x.from, v.from-v.to, `class="frame"`)
}

// stretch is how many pixels wide the stretches are over which points are averaged.
const stretch = 3.5

// summary is the points of one stretch of time.
type summary struct{ at, mean, low, high float64 }

// summaries averages points over stretches of the axis.
func summaries(points []Point, t timeAxis) (all []summary) {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b Point) int { return int(min(1, max(-1, a.At-b.At))) })
	for len(points) > 0 {
		bin := math.Floor(t.place(points[0].At) / stretch)
		n := slices.IndexFunc(points, func(p Point) bool { return math.Floor(t.place(p.At)/stretch) != bin })
		if n < 0 {
			n = len(points)
		}
		s := summary{low: math.Inf(1), high: math.Inf(-1)}
		for _, p := range points[:n] {
			s.at += t.place(p.At) / float64(n)
			s.mean += p.Value / float64(n)
			s.low, s.high = min(s.low, p.Value), max(s.high, p.Value)
		}
		all, points = append(all, s), points[n:]
	}
	return all
}

// draw draws the line and the area behind it.
func (s Series) draw(c *canvas, t timeAxis, v scale) {
	for _, all := range unbroken(summaries(s.Points, t)) {
		var line, upper, lower []spot
		for _, x := range all {
			line = append(line, spot{x.at, v.at(x.mean)})
			upper = append(upper, spot{x.at, v.at(x.high)})
			lower = append(lower, spot{x.at, v.at(x.low)})
		}
		slices.Reverse(lower)
		c.add(`<path class="area f%d" d="%sZ"/>`, s.Style%most, path(append(upper, lower...)))
		c.add(`<path d="%s" %s/>`, path(line), entry{style: s.Style, bold: s.Bold}.attributes())
	}
}

// unbroken splits a series where nothing was measured for much longer than usual.
func unbroken(all []summary) (runs [][]summary) {
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
