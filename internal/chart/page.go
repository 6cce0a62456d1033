// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"image/color"
	"io"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width  vg.Length = 750
	margin vg.Length = 9
	gap    vg.Length = 4 // between rows
)

// colors are those of Okabe and Ito, which differ for colour-blind readers.
var colors = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 255}, color.RGBA{0xd5, 0x5e, 0x00, 255}, color.RGBA{0x00, 0x9e, 0x73, 255}, color.RGBA{0xcc, 0x79, 0xa7, 255},
	color.Black, color.RGBA{0xe6, 0x9f, 0x00, 255}, color.RGBA{0x56, 0xb4, 0xe9, 255},
}

var grey = color.Gray{0x55}

// line is the look of a line and of the glyphs on it. Styles differ by dashes and
// glyphs too, so that no reader needs the colours.
func line(style int, bold bool) (*plotter.Line, *plotter.Scatter) {
	c := colors[style%len(colors)]
	l := draw.LineStyle{Color: c, Width: 1.1, Dashes: plotutil.Dashes(style)}
	if bold {
		l.Width = 2
	}
	return &plotter.Line{LineStyle: l}, &plotter.Scatter{GlyphStyle: draw.GlyphStyle{Color: c, Shape: plotutil.Shape(style), Radius: 2.8}}
}

func textStyle(size vg.Length, bold bool) text.Style {
	s := text.Style{Color: color.Black, Font: plot.DefaultFont, Handler: plot.DefaultTextHandler}
	s.Font.Variant, s.Font.Size = "Sans", size
	if bold {
		s.Font.Weight = font.WeightBold
	}
	return s
}

// newPlot is an empty plot with a grid.
func newPlot(title, unit string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text = title
	if unit != "" {
		p.Title.Text += ", " + unit
	}
	for _, s := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label} {
		s.Font = textStyle(8, s == &p.Title.TextStyle).Font
	}
	p.Title.Padding = 2
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.Tick.Length, p.Y.Tick.Length = 0, 0 // the grid has a line for each label
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xbb}, color.Gray{0xbb}
	p.Add(grid)
	return p
}

// legend lists lines, each name once.
type legend struct {
	names   []string
	entries []plot.Legend
	widest  vg.Length
}

func (l *legend) add(name string, style int, bold bool) {
	if name == "" || slices.Contains(l.names, name) {
		return
	}
	e := plot.NewLegend()
	e.Left, e.Top, e.ThumbnailWidth, e.TextStyle = true, true, 32, textStyle(9, bold)
	line, glyphs := line(style, bold)
	e.Add(name, line, glyphs)
	l.names, l.entries = append(l.names, name), append(l.entries, e)
	l.widest = max(l.widest, e.Rectangle(draw.Canvas{}).Size().X)
}

// tiles is how the entries are arranged.
func (l *legend) tiles() draw.Tiles {
	columns := max(1, min(len(l.entries), int((width-2*margin)/(l.widest+2*margin))))
	return draw.Tiles{Cols: columns, Rows: (len(l.entries) + columns - 1) / columns}
}

// page is a picture: title, note and legend, and plots in columns, whose axes are in
// line.
type page struct {
	title, note string
	legend      legend
	columns     int
	plots       []*plot.Plot
	height      vg.Length // height of a row of plots
}

// rows are the plots row by row; nil is an empty place.
func (p *page) rows() [][]*plot.Plot {
	rows := make([][]*plot.Plot, (len(p.plots)+p.columns-1)/p.columns)
	for i := range rows {
		rows[i] = make([]*plot.Plot, p.columns)
		copy(rows[i], p.plots[i*p.columns:])
	}
	return rows
}

// write draws the page. Its background is white in dark viewers too.
func (p *page) write(w io.Writer) error {
	const entryHeight = 13
	title, note, entries, rows := textStyle(11, true), textStyle(8, false), p.legend.tiles(), p.rows()
	title.YAlign, note.YAlign, note.Color = draw.YTop, draw.YTop, grey
	head := title.Height(p.title) + note.Height(p.note) + vg.Length(entries.Rows)*entryHeight + 3*gap
	svg := vgsvg.New(width, head+vg.Length(len(rows))*p.height+2*margin)
	c := draw.New(svg)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y}, p.title)
	c.FillText(note, vg.Point{X: c.Min.X, Y: c.Max.Y - title.Height(p.title) - gap}, p.note)
	below := draw.Crop(c, 0, 0, 0, -head)
	c.Min.Y, c.Max.Y = below.Max.Y+gap, below.Max.Y+gap+vg.Length(entries.Rows)*entryHeight
	for i, e := range p.legend.entries {
		e.Draw(entries.At(c, i%entries.Cols, i/entries.Cols))
	}
	for i, canvases := range plot.Align(rows, draw.Tiles{Cols: p.columns, Rows: len(rows), PadX: 2 * gap, PadY: gap}, below) {
		for j, c := range canvases {
			if rows[i][j] != nil {
				rows[i][j].Draw(c)
			}
		}
	}
	return write(w, svg)
}

// shorter leaves out what is the default of SVG. The font is the one that measured the
// texts, or Arial, which is as wide, or any.
var shorter = strings.NewReplacer("Liberation Sans;font-variant:none", "Liberation Sans,Arial,sans-serif",
	";font-weight:normal", "", ";font-style:normal", "")

// blank is a text without a letter.
var blank = regexp.MustCompile(`<text [^>]*> </text>\n`)

// write writes what was drawn.
func write(w io.Writer, svg *vgsvg.Canvas) error {
	var b strings.Builder
	if _, err := svg.WriteTo(&b); err != nil {
		return fmt.Errorf("chart: draw picture: %w", err)
	}
	if _, err := shorter.WriteString(w, blank.ReplaceAllString(b.String(), "")); err != nil {
		return fmt.Errorf("chart: write picture: %w", err)
	}
	return nil
}
