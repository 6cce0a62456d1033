// SPDX-License-Identifier: Apache-2.0

package compare

import "testing"

func TestJudge(t *testing.T) {
	least, most := AtLeast(.9, "%.2f"), AtMost(.9, "%.2f")
	for _, c := range []struct {
		name   string
		limit  Limit
		rounds Series
		want   Verdict
	}{
		{"all above", least, Series{.95, .96, .97}, Met},
		{"all above", most, Series{.95, .96, .97}, Missed},
		{"all below", least, Series{.85, .86, .87}, Missed},
		{"all below", most, Series{.85, .86, .87}, Met},
		{"a tie", least, Series{.9, .9, .9}, Met},
		{"a tie", most, Series{.9, .9, .9}, Met},
		{"a tie at the end of the spread", least, Series{.9, .91, .95}, Met},
		{"median above, one of three below", least, Series{.89, .91, .95}, Unstable},
		{"median below, one of three above", least, Series{.85, .89, .9}, Unstable},
		{"median above, one of three below", most, Series{.89, .91, .95}, Unstable},
		{"one of five may be anywhere", least, Series{.1, .92, .93, .94, .95}, Met},
		{"and another one at the other end", least, Series{.1, .92, .93, .94, 50}, Met},
		{"two of five may not", least, Series{.1, .2, .93, .94, .95}, Unstable},
		{"one run", least, Series{.91}, Met},
		{"one run", least, Series{.89}, Missed},
		{"no run", least, nil, NotMeasured},
		{"NaN", least, Series{.95, nan, .97}, NotMeasured},
		{"NaN", most, Series{nan}, NotMeasured},
		{"infinite", least, Series{.95, .96, inf}, NotMeasured},
		{"infinite", most, Series{-inf, .5, .6}, NotMeasured},
		{"one infinite run", least, Series{inf}, NotMeasured},
		{"one infinite run", most, Series{-inf}, NotMeasured},
		{"divided by nothing", least, Series{1, 1, 1}.Over(Series{1, 0, 1}), NotMeasured},
		{"unequal counts", least, Series{1, 1, 1}.Over(Series{1, 1}), NotMeasured},
	} {
		if got := c.limit.Judge(c.rounds.Median(), c.rounds); got != c.want {
			t.Errorf("%s, %v, %v: %v, want %v", c.name, c.limit, c.rounds, got, c.want)
		}
	}
}

// A figure may be made of the rounds in another way than by the median: it is judged by where it is.
func TestJudgeFigure(t *testing.T) {
	l := AtMost(75, "%.0f")
	for _, c := range []struct {
		value  float64
		rounds Series
		want   Verdict
	}{
		{74, Series{73, 74, 75}, Met}, {76, Series{77, 76, 78}, Missed}, {76, Series{73, 74, 75}, Unstable},
		{80, nil, Missed}, {70, nil, Met}, {nan, nil, NotMeasured}, {74, Series{73, nan, 75}, NotMeasured}, {nan, Series{73, 74}, NotMeasured},
		{-inf, Series{73, 74}, NotMeasured}, {-inf, nil, NotMeasured}, {inf, nil, NotMeasured},
	} {
		if got := l.Judge(c.value, c.rounds); got != c.want {
			t.Errorf("%v of %v: %v, want %v", c.value, c.rounds, got, c.want)
		}
	}
}
