// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"image/png"
	"math"
	"strings"
	"testing"
	"time"
)

func sine(n int) (pts []Point) {
	for i := range n {
		pts = append(pts, Point{time.Duration(i) * 10 * time.Millisecond, 50 + 40*math.Sin(float64(i)/20)})
	}
	return pts
}

// colours counts the pixels that are neither white nor grey.
func colours(t *testing.T, f *Figure) (coloured int, height int) {
	t.Helper()
	var buf bytes.Buffer
	if err := f.WritePNG(&buf); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&buf)
	if err != nil {
		t.Fatal(err)
	}
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, bl, _ := img.At(x, y).RGBA()
			if max(r, g, bl)-min(r, g, bl) > 0x4000 {
				coloured++
			}
		}
	}
	return coloured, b.Dy()
}

func TestFigureShowsItsLines(t *testing.T) {
	f := &Figure{Title: "test", Panels: []Panel{{Title: "rate", Unit: "Mbit/s", Lines: []Series{{Name: "A"}}}}}
	empty, h1 := colours(t, f)
	f.Panels[0].Lines[0].Points = sine(500)
	full, _ := colours(t, f)
	if empty != 0 || full < 500 {
		t.Errorf("%d coloured pixels without data and %d with a line", empty, full)
	}
	f.Panels = append(f.Panels, Panel{Title: "queue", Unit: "kB", Lines: []Series{{Name: "A", Points: sine(500), Dashed: true}}})
	f.Marks = []Mark{{time.Second, "slowed"}}
	if _, h2 := colours(t, f); h2 < 2*h1-2 || h2 > 2*h1 {
		t.Errorf("two panels are %d pixels high, one is %d", h2, h1)
	}
	if err := (&Figure{}).WritePNG(&bytes.Buffer{}); err == nil {
		t.Error("a figure without panels was drawn")
	}
}

func TestFigureRejectsNoNumbers(t *testing.T) {
	f := &Figure{Panels: []Panel{{Title: "rate", Lines: []Series{{Name: "A", Points: []Point{{0, math.NaN()}}}}}}}
	if err := f.WritePNG(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `"A"`) {
		t.Errorf("NaN: %v, want an error that names the line", err)
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

func TestStepsShowTheirLines(t *testing.T) {
	draw := func(s *Steps) int {
		var buf bytes.Buffer
		if err := s.WritePNG(&buf); err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(&buf)
		if err != nil {
			t.Fatal(err)
		}
		n, b := 0, img.Bounds()
		for y := b.Min.Y; y < b.Max.Y; y++ {
			for x := b.Min.X; x < b.Max.X; x++ {
				if r, g, bl, _ := img.At(x, y).RGBA(); max(r, g, bl)-min(r, g, bl) > 0x4000 {
					n++
				}
			}
		}
		return n
	}
	names := []string{"1KB", "10KB", "100KB"}
	missing := []float64{math.NaN(), math.NaN(), math.NaN()}
	some := []float64{1, math.NaN(), 30}
	for _, log := range []bool{false, true} {
		empty := draw(&Steps{Names: names, Panels: []StepPanel{{Log: log, Lines: []StepSeries{{Name: "A", Values: missing}}}}})
		full := draw(&Steps{Names: names, Panels: []StepPanel{{Log: log, Lines: []StepSeries{{Name: "A", Values: some}}}}})
		if empty != 0 || full < 200 {
			t.Errorf("log %v: %d coloured pixels without data and %d with a line", log, empty, full)
		}
	}
}
