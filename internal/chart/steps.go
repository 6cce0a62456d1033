// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"errors"
	"io"
	"math"
)

// Steps is a picture of values for a few named steps, such as sizes of messages:
// panels row by row with one axis for all values, a line for each series.
type Steps struct {
	Title   string
	Unit    string   // of the values
	Names   []string // of the steps, on the horizontal axis
	Of      string   // what the steps are
	Columns int      // of panels, 0 = 1
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

const stepHeight = 250.0

// WriteSVG draws the picture.
func (s *Steps) WriteSVG(w io.Writer) error {
	if len(s.Panels) == 0 {
		return errors.New("chart: a picture without panels")
	}
	columns := max(1, min(s.Columns, len(s.Panels)))
	rows := (len(s.Panels) + columns - 1) / columns
	c := &canvas{width: width}
	c.body.WriteString(markers)
	var head legend
	for _, p := range s.Panels {
		for _, l := range p.Lines {
			head.add(entry{l.Name, l.Style, l.Bold, true})
		}
	}
	y := c.head(s.Title, "", head)
	v := s.values()
	cell := (width - 2*margin) / float64(columns)
	row := stepHeight + panelTop + axisHeight
	for i, p := range s.Panels {
		x, top := margin+cell*float64(i%columns), y+row*float64(i/columns)
		v.from, v.to = top+panelTop+stepHeight, top+panelTop
		s.panel(c, p, scale{min: -.3, max: float64(len(s.Names)) - .7, from: x + panelLeft, to: x + cell - 10}, v)
	}
	c.height = y + row*float64(rows) + margin
	return c.write(w, s.Title)
}

// values is the axis of the values of all panels, without its place.
func (s *Steps) values() scale {
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range s.Panels {
		for _, l := range p.Lines {
			for _, v := range l.Values {
				if s.has(v) {
					low, high = min(low, v), max(high, v)
				}
			}
		}
	}
	switch {
	case low > high:
		return scale{max: 1}
	case s.Log:
		return scale{min: low * .9, max: high * 1.1, log: true}
	}
	return scale{max: roundUp(max(high, 1e-9))}
}

// has says whether a value can be drawn.
func (s *Steps) has(v float64) bool { return !math.IsNaN(v) && (v > 0 || !s.Log) }

func (s *Steps) panel(c *canvas, p StepPanel, x, v scale) {
	c.text(x.from, v.to-8, left, `class="bold"`, p.Title)
	c.text(x.to, v.to-8, right, `class="note"`, s.Unit)
	c.frame(x, v, 8)
	for i, name := range s.Names {
		at := x.at(float64(i))
		c.line(at, v.to, at, v.from, `class="grid"`)
		c.text(at, v.from+15, centre, "", name)
	}
	c.text((x.from+x.to)/2, v.from+30, centre, `class="note"`, s.Of)
	for _, l := range p.Lines {
		// A step without a value ends the line; the next one begins another.
		var d string
		var run []spot
		for i, value := range l.Values {
			if s.has(value) {
				run = append(run, spot{x.at(float64(i)), v.at(value)})
				continue
			}
			d, run = d+path(run), nil
		}
		if d += path(run); d != "" {
			c.add(`<path d="%s" %s/>`, d, entry{"", l.Style, l.Bold, true}.attributes())
		}
	}
}
