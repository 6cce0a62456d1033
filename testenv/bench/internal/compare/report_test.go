// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"strings"
	"testing"
)

// The verdict of each row is in the table, and the report stores whether all are met.
func TestTable(t *testing.T) {
	limit := AtLeast(.9, "%.2f")
	for _, c := range []struct {
		name      string
		reference Series
		rounds    Series
		want      string // the row, with single spaces
		missed    bool
	}{
		{"met", Series{5, 6, 7}, Series{.95, .96, .97}, "a 0.96 >= 0.90 ok", false},
		{"missed", Series{5, 6, 7}, Series{.85, .86, .87}, "a 0.86 >= 0.90 MISSED", true},
		{"unstable", Series{5, 6, 7}, Series{.85, .91, .97}, "a 0.91 >= 0.90 UNSTABLE", true},
		{"reference at the bound", Series{5, 6, 10}, Series{.95, .96, .97}, "a 0.96 >= 0.90 ok", false},
		{"unstable reference", Series{5, 6, 10.1}, Series{.95, .96, .97}, "a 0.96 >= 0.90 UNSTABLE", true},
		{"one of ten is no judge of a reference", Series{1, 5, 6, 6, 6, 6, 6, 6, 7, 60}, Series{.95}, "a 0.95 >= 0.90 ok", false},
		{"not measured", Series{5, 6, 7}, Series{.95, nan}, "a NaN >= 0.90 NOT MEASURED", true},
		{"not measured, unstable reference", Series{5, 6, 17}, nil, "a NaN >= 0.90 NOT MEASURED", true},
	} {
		var out strings.Builder
		r := NewReport(&out)
		tab := r.Titled("Title", "WHAT\tSHARE\tTARGET\t\t")
		tab.Reference(c.reference)
		tab.Row("without limit\t%.2f\t%s", 1., None)
		tab.Row("a\t%.2f\t%s", c.rounds.Median(), tab.Median(limit, c.rounds))
		tab.End("Note.")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if got := strings.Join(strings.Fields(lines[4]), " "); got != c.want || lines[0] != "Title" || lines[5] != "Note." {
			t.Errorf("%s: %q in\n%s", c.name, got, &out)
		}
		if got := strings.Contains(out.String(), "busy"); got != strings.Contains(c.name, "unstable reference") {
			t.Errorf("%s:\n%s", c.name, &out)
		}
		if (r.Err() != nil) != c.missed {
			t.Errorf("%s: %v", c.name, r.Err())
		}
	}
}

// The reference of one table has no part in the next one.
func TestTwoTables(t *testing.T) {
	r := NewReport(&strings.Builder{})
	r.Table("A").Reference(Series{1, 9})
	if got := r.Table("B").Median(AtLeast(1, "%.0f"), Series{2}); got != ">= 1\tok" || r.Err() != nil {
		t.Errorf("%q, %v", got, r.Err())
	}
}

func TestGoals(t *testing.T) {
	var g Goals
	g.Expect(true, "results are equal")
	var out strings.Builder
	r := NewReport(&out)
	r.Goals(g)
	if r.Err() != nil {
		t.Error(r.Err())
	}
	g.Expect(false, "%d of %d arrived", 1, 2)
	g.Add(AtMost(3, "").Judge(3, Series{1, 3, 4}), "3 RTOs")
	r.Goals(g.Unmet())
	if want := "ok      results are equal\nMISSED  1 of 2 arrived\nUNSTABLE  3 RTOs\n"; out.String() != want || r.Err() == nil {
		t.Errorf("%q, %v", &out, r.Err())
	}
}
