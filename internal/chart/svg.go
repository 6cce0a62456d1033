// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	_ "embed" // style and markers
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// canvas is an SVG picture in the making. Coordinates are pixels from the top left.
// The same calls give the same bytes.
type canvas struct {
	width, height float64
	body          bytes.Buffer
}

// anchor is the point of a text that stands at its coordinates.
type anchor string

const (
	left   anchor = "start"
	centre anchor = "middle"
	right  anchor = "end"
)

// number writes a coordinate with a tenth of a pixel.
func number(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(&c.body, format+"\n", args...) }

// text writes one line of text; attributes are of the SVG element, such as a class.
func (c *canvas) text(x, y float64, a anchor, attributes, s string) {
	if a != left {
		attributes += ` text-anchor="` + string(a) + `"`
	}
	c.add(`<text x="%s" y="%s" %s>%s</text>`, number(x), number(y), strings.TrimSpace(attributes), escape(s))
}

func (c *canvas) line(x1, y1, x2, y2 float64, attributes string) {
	c.add(`<path d="M%s %sL%s %s" %s/>`, number(x1), number(y1), number(x2), number(y2), attributes)
}

func (c *canvas) rect(x, y, width, height float64, attributes string) {
	c.add(`<rect x="%s" y="%s" width="%s" height="%s" %s/>`, number(x), number(y), number(width), number(height), attributes)
}

// spot is a place on the canvas.
type spot struct{ x, y float64 }

// path writes spots for the attribute d of a path.
func path(spots []spot) string {
	var b strings.Builder
	for i, s := range spots {
		b.WriteString([]string{"L", "M"}[btoi(i == 0)])
		b.WriteString(number(s.x) + " " + number(s.y))
	}
	return b.String()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func escape(s string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.String()
}

// textWidth is about how wide a text is in pixels at a font size.
func textWidth(s string, size float64) float64 { return float64(len([]rune(s))) * size * .56 }

// style is what all pictures look like. The background is white in dark viewers too.
//
// The lines' classes s0 and so on differ by colour, by dashes and by marker, so that
// none of the three is needed alone. Colours are those of Okabe and Ito, which differ
// for colour-blind readers. The cells' classes heat0 and so on get darker.
//
//go:embed style.css
var style string

// markers are the shapes m0 and so on of the lines.
//
//go:embed markers.svg
var markers string

// write writes the whole picture.
func (c *canvas) write(w io.Writer, title string) error {
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]s" height="%[2]s" viewBox="0 0 %[1]s %[2]s">
<title>%[3]s</title>
<style>%[4]s</style>
<rect width="100%%" height="100%%" fill="#fff"/>
`, number(c.width), number(c.height), escape(title), style)
	if err == nil {
		_, err = w.Write(append(c.body.Bytes(), "</svg>\n"...))
	}
	if err != nil {
		return fmt.Errorf("chart: write picture: %w", err)
	}
	return nil
}
