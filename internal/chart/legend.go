// SPDX-License-Identifier: Apache-2.0

package chart

import "fmt"

// most is how many styles there are before one returns.
const most = 14

// entry is a line of a legend.
type entry struct {
	name    string
	style   int
	bold    bool
	markers bool
}

// attributes are those of the line's path.
func (e entry) attributes() string {
	s := fmt.Sprintf(`class="line s%d`, e.style%most)
	if e.bold {
		s += " thick"
	}
	s += `"`
	if e.markers {
		s += fmt.Sprintf(` marker-start="url(#m%d)" marker-mid="url(#m%[1]d)" marker-end="url(#m%[1]d)"`, e.style%most)
	}
	return s
}

const sample = 44 // pixels of a line in a legend

// draw draws the line's sample and its name.
func (e entry) draw(c *canvas, x, y float64) {
	c.add(`<path d="%s" %s/>`, path([]spot{{x, y}, {x + sample/2, y}, {x + sample, y}}), e.attributes())
	class := ""
	if e.bold {
		class = `class="bold"`
	}
	c.text(x+sample+8, y+4, left, class, e.name)
}

func (e entry) width() float64 { return sample + 8 + textWidth(e.name, 12)*1.08 + 22 }

// legend is a list of lines, each name once.
type legend []entry

func (l *legend) add(e entry) {
	for _, x := range *l {
		if x.name == e.name {
			return
		}
	}
	if e.name != "" {
		*l = append(*l, e)
	}
}

// rows breaks the legend into rows of a width.
func (l legend) rows(width float64) (rows []legend) {
	x := width
	for _, e := range l {
		if x+e.width() > width {
			rows, x = append(rows, nil), 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], e)
		x += e.width()
	}
	return rows
}
