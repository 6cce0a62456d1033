// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot/plotter"
)

func sine(n int) (pts []Point) {
	for i := range n {
		pts = append(pts, Point{time.Duration(i) * 10 * time.Millisecond, 50 + 40*math.Sin(float64(i)/20)})
	}
	return pts
}

// svg draws a picture twice: it must be XML, and the same both times.
func svg(t *testing.T, f interface{ WriteSVG(io.Writer) error }) string {
	t.Helper()
	var one, two bytes.Buffer
	for _, b := range []*bytes.Buffer{&one, &two} {
		if err := f.WriteSVG(b); err != nil {
			t.Fatal(err)
		}
	}
	if one.String() != two.String() {
		t.Error("drawn twice, the picture differs")
	}
	if err := xml.Unmarshal(one.Bytes(), new(struct{})); err != nil {
		t.Error(err)
	}
	return one.String()
}

// lines counts the lines of a style, with those of the legend.
func lines(text string, style int) int {
	l, _ := line(style, false)
	r, g, b, _ := l.Color.RGBA()
	return len(regexp.MustCompile(fmt.Sprintf(`:#%02X%02X%02X;[a-z]+-width:1\.1`, r>>8, g>>8, b>>8)).FindAllString(text, -1))
}

func TestFigureShowsItsLines(t *testing.T) {
	f := &Figure{Title: "a < b", Panels: []Panel{{Title: "rate", Unit: "Mbit/s", Lines: []Series{{Name: "A"}}}}}
	if got := lines(svg(t, f), 0); got != 1 { // the legend's
		t.Errorf("without points: %d lines", got)
	}
	f.Panels[0].Lines[0].Points = sine(5000)
	f.Panels = append(f.Panels, Panel{Title: "queue", Unit: "kB", LogFrom: 1, Lines: []Series{{Name: "A", Points: sine(5000)}, {Name: "B", Style: 1, Points: sine(500)}},
		Levels: []Level{{20, "limit"}}})
	f.Marks = []Mark{{time.Second, "slowed"}}
	text := svg(t, f)
	for _, want := range []string{">a &lt; b<", ">rate, Mbit/s<", ">limit<", ">slowed<", ">time, s<"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	if got := [2]int{lines(text, 0), lines(text, 1)}; got != [2]int{1 + 2, 1 + 1} {
		t.Errorf("%v lines, want one of each in the legend, and two and one", got)
	}
	if len(text) > 60_000 {
		t.Errorf("%d bytes for 10 000 points", len(text))
	}
	if strings.Contains(text, ">-0<") {
		t.Error("an axis begins at -0")
	}
	if err := (&Figure{}).WriteSVG(&bytes.Buffer{}); err == nil {
		t.Error("a figure without panels was drawn")
	}
}

// Panels of one unit have one axis, so that equal values are equally high.
func TestPanelsShareTheAxis(t *testing.T) {
	at := func(v float64) []Series { return []Series{{Points: []Point{{0, v}, {time.Second, v}}}} }
	f := &Figure{Panels: []Panel{{Unit: "us", Lines: at(10)}, {Unit: "us", Lines: at(70)}, {Unit: "ms", Lines: at(10)}}}
	a := f.axes()
	var tops []float64
	for _, panel := range f.Panels {
		p := newPlot("", "")
		a.set(p, panel)
		tops = append(tops, p.Y.Max)
	}
	if tops[0] != tops[1] || tops[0] < 70 || tops[2] > 20 {
		t.Errorf("10, 70 and another unit's 10 have axes up to %v", tops)
	}
}

// A line is the mean of what is measured at one time; the area has all of it.
func TestSummaries(t *testing.T) {
	got := summaries(plotter.XYs{{X: 1, Y: 10}, {X: 4, Y: 5}, {X: 1, Y: 20}}, .1)
	want := []summary{{1, 15, 10, 20}, {4, 5, 5, 5}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(summary{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Where nothing was measured there is no line, however far apart the others are.
func TestUnbroken(t *testing.T) {
	at := func(places ...float64) (all []summary) {
		for _, x := range places {
			all = append(all, summary{at: x})
		}
		return all
	}
	for name, c := range map[string]struct {
		in   []summary
		want [][]summary
	}{
		"nothing": {nil, nil},
		"one":     {at(5), [][]summary{at(5)}},
		"sparse":  {at(0, 100, 200), [][]summary{at(0, 100, 200)}},
		"a gap":   {at(0, 4, 8, 40, 44), [][]summary{at(0, 4, 8), at(40, 44)}},
	} {
		if diff := cmp.Diff(c.want, unbroken(c.in, 3.5), cmp.AllowUnexported(summary{})); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestFigureRejectsNoNumbers(t *testing.T) {
	f := &Figure{Panels: []Panel{{Title: "rate", Lines: []Series{{Name: "A", Points: []Point{{0, math.NaN()}}}}}}}
	if err := f.WriteSVG(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `"A"`) {
		t.Errorf("NaN: %v, want an error that names the line", err)
	}
}

// Every style differs from all others by dashes and glyph too, not by colour alone.
func TestStylesDifferWithoutColour(t *testing.T) {
	seen := map[string]int{}
	for i := range 14 {
		l, glyphs := line(i, false)
		look := fmt.Sprintf("%v %T", l.Dashes, glyphs.Shape)
		if j, ok := seen[look]; ok {
			t.Errorf("the styles %d and %d differ by colour only", i, j)
		}
		seen[look] = i
	}
}

func TestOneTwoFive(t *testing.T) {
	var got []string
	for _, tick := range (oneTwoFive{}).Ticks(.9, 30) {
		got = append(got, tick.Label)
	}
	if diff := cmp.Diff([]string{"1", "2", "5", "10", "20"}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestTableAlignsColumns(t *testing.T) {
	var b strings.Builder
	tab := Table{Title: "Queues", Header: []string{"phase", "fill"}, Rows: [][]string{{"without", "99.9 %"}, {"with the product", "9 %"}}}
	if err := tab.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := "Queues\n" +
		"             phase    fill\n" +
		"           without  99.9 %\n" +
		"  with the product     9 %\n"
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}

// A step without a value ends the line; without any value there is no line.
func TestStepsShowTheirLines(t *testing.T) {
	missing := []float64{math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	some := []float64{1, 2, math.NaN(), 30, 3}
	for _, log := range []bool{false, true} {
		s := &Steps{Names: []string{"1KB", "10KB", "100KB", "1MB", "10MB"}, Log: log, Panels: []StepPanel{{Lines: []StepSeries{{Name: "A", Values: missing}}}}}
		if got := lines(svg(t, s), 0); got != 1 { // the legend's
			t.Errorf("log %v: without values: %d lines", log, got)
		}
		s.Panels[0].Lines[0].Values = some
		if got := lines(svg(t, s), 0); got != 1+2 {
			t.Errorf("log %v: %d lines, want the legend's and two", log, got)
		}
	}
	if err := (&Steps{}).WriteSVG(io.Discard); err == nil {
		t.Error("a picture without panels was drawn")
	}
}

// Every cell has its value as text.
func TestHeat(t *testing.T) {
	h := &Heat{Title: "T", Columns: []string{"one", "two"}, Rows: []HeatRow{{"row", []HeatCell{{"0.5", 0}, {"9.1 Q", 99}}}}, Notes: []string{"how to read it"}}
	text := svg(t, h)
	for _, want := range []string{">one<", ">two<", ">row<", ">0.5<", ">9.1 Q<", ">how to read it<", "fill:#6B1D3C"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	if err := (&Heat{}).WriteSVG(io.Discard); err == nil {
		t.Error("a table without cells was drawn")
	}
}
