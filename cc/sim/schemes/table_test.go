// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"strings"
	"testing"
)

func TestEveryEntryMakesItsScheme(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range List() {
		if seen[e.Name] {
			t.Errorf("%s stands twice in the table", e.Name)
		}
		seen[e.Name] = true
		s, err := New(e.Name)
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
			continue
		}
		if s.Name() != e.Name {
			t.Errorf("%s calls itself %s", e.Name, s.Name())
		}
		names := map[string]bool{}
		for _, p := range e.Params() {
			if p[0] == "" || p[1] == "" || p[2] == "" || names[p[0]] {
				t.Errorf("%s: parameter %q: no default, no meaning or twice", e.Name, p)
			}
			names[p[0]] = true
		}
	}
}

func TestEntriesDoNotShareSettings(t *testing.T) {
	if _, err := New("dcqcn", Param{"kmin", "1KB"}); err != nil {
		t.Fatal(err)
	}
	s, err := New("dcqcn")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Needs().ECN(25e9).KminBytes; got != 100_000 {
		t.Errorf("kmin %d: another scheme's parameter", got)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		name  string
		param Param
		want  string
	}{
		{"dcqcm", Param{}, "dcqcn-no-window"},
		{"dcqcn", Param{"kmid", "1KB"}, "kmin"},
		{"dcqcn", Param{"kmin", "1 bushel"}, "64KB"},
		{"dcqcn", Param{"g", "2"}, "at most 1"},
		{"swift", Param{"target", "25"}, "10us"},
		{"hpcc", Param{"eta", "200%"}, "at most 1"},
		{"timely", Param{"t-high", "1us"}, "above t_low"},
		{"expresspass", Param{"alpha", "7"}, "at most 1"},
	} {
		_, err := New(c.name, c.param)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: error %v, want one that names %q", c.name, c.param, err, c.want)
		}
	}
}
