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

// lines are the spots of the lines of a picture.
func lines(text string) (all []string) {
	for _, m := range regexp.MustCompile(`d="([^"]*)" class="line s`).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestFigureShowsItsLines(t *testing.T) {
	f := &Figure{Title: "a < b", Panels: []Panel{{Title: "rate", Unit: "Mbit/s", Lines: []Series{{Name: "A"}}}}}
	if got := lines(svg(t, f)); len(got) != 1 { // the legend's
		t.Errorf("without points: %q", got)
	}
	f.Panels[0].Lines[0].Points = sine(5000)
	f.Panels = append(f.Panels, Panel{Title: "queue", Unit: "kB", LogFrom: 1, Lines: []Series{{Name: "A", Points: sine(5000)}, {Name: "B", Style: 1, Points: sine(10)}},
		Levels: []Level{{20, "limit"}}})
	f.Marks = []Mark{{time.Second, "slowed"}}
	text := svg(t, f)
	for _, want := range []string{">a &lt; b<", ">rate<", ">Mbit/s<", ">limit<", ">slowed<", ">time, s<", `class="line s1"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	if got := lines(text); len(got) != 2+3 {
		t.Errorf("%d lines, want two of the legend and three", len(got))
	}
	if len(text) > 30_000 {
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
	at := func(v float64) []Point { return []Point{{0, v}, {time.Second, v}} }
	f := &Figure{Columns: 2, Panels: []Panel{
		{Unit: "us", Lines: []Series{{Points: at(10)}}},
		{Unit: "us", Lines: []Series{{Points: at(10)}, {Points: at(70)}}},
		{Unit: "ms", Lines: []Series{{Points: at(10)}}},
	}}
	var heights []string
	for _, l := range lines(svg(t, f)) {
		_, y, _ := strings.Cut(l[:strings.Index(l, "L")], " ")
		heights = append(heights, y)
	}
	if len(heights) != 4 || heights[0] != heights[1] || heights[0] == heights[2] {
		t.Errorf("10, 10 and 70 are drawn at the heights %v", heights[:3])
	}
}

// A line is the mean of what is measured at one time; the area has all of it.
func TestSummaries(t *testing.T) {
	axis := timeAxis{scale: scale{min: 0, max: 10, from: 0, to: 1000}, unit: 1}
	got := summaries([]Point{{time.Second, 10}, {4 * time.Second, 5}, {time.Second, 20}}, axis)
	want := []summary{{100, 15, 10, 20}, {400, 5, 5, 5}}
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
		if diff := cmp.Diff(c.want, unbroken(c.in), cmp.AllowUnexported(summary{})); diff != "" {
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

// Every style differs from all others by dashes and marker too, not by colour alone.
func TestStylesDifferWithoutColour(t *testing.T) {
	part := func(pattern, of string) []string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(of)
		if found == nil {
			t.Fatalf("there is no %s", pattern)
		}
		return found
	}
	seen := map[[3]string]int{}
	for i := range most {
		dashes := part(fmt.Sprintf(`(?m)^\.s%d\{.*?dasharray:([^}]*)\}`, i), style)[1]
		hollow := part(fmt.Sprintf(`\.m%d\{.*?fill:([^}]*)\}`, i), style)[1] == "#fff"
		shape := part(fmt.Sprintf(`id="m%d" .*?<g [^>]*>(.*)</g>`, i), markers)[1]
		look := [3]string{dashes, shape, fmt.Sprint(hollow)}
		if j, ok := seen[look]; ok {
			t.Errorf("the styles %d and %d differ by colour only", i, j)
		}
		seen[look] = i
	}
}

func TestTicks(t *testing.T) {
	for name, c := range map[string]struct {
		s    scale
		n    int
		want []float64
	}{
		"linear":       {scale{max: 80}, 4, []float64{0, 20, 40, 60, 80}},
		"from above 0": {scale{min: 3, max: 11}, 4, []float64{4, 6, 8, 10}},
		"digits":       {scale{min: 1, max: 30, log: true}, 8, []float64{1, 2, 5, 10, 20}},
		"decades":      {scale{min: .1, max: 2000, log: true}, 4, []float64{.1, 1, 10, 100, 1000}},
	} {
		var got []float64
		for _, v := range c.s.ticks(c.n) {
			got = append(got, math.Round(v*1e9)/1e9)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
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
	missing := []float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	some := []float64{1, math.NaN(), 30, 3}
	for _, log := range []bool{false, true} {
		s := &Steps{Names: []string{"1KB", "10KB", "100KB", "1MB"}, Log: log, Panels: []StepPanel{{Lines: []StepSeries{{Name: "A", Values: missing}}}}}
		if got := lines(svg(t, s)); len(got) != 1 {
			t.Errorf("log %v: without values: %q", log, got)
		}
		s.Panels[0].Lines[0].Values = some
		got := lines(svg(t, s))
		if len(got) != 2 || strings.Count(got[1], "M") != 2 || strings.Count(got[1], "L") != 1 {
			t.Errorf("log %v: the line is %q", log, got)
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
	for _, want := range []string{">one<", ">two<", ">row<", ">0.5<", ">9.1 Q<", ">how to read it<", `"heat heat0"`, `"heat heat4"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	if err := (&Heat{}).WriteSVG(io.Discard); err == nil {
		t.Error("a table without cells was drawn")
	}
}
