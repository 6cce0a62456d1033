// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"strings"
	"testing"
)

func TestGood(t *testing.T) {
	for _, c := range []struct {
		in   string
		read func(string) (float64, error)
		want float64
	}{
		{"25us", integer(Time), 25_000},
		{"1.5 ms", integer(Time), 1_500_000},
		{"0", integer(Time), 0},
		{"100Gbit/s", Rate, 100e9},
		{"2.5G", Rate, 2.5e9},
		{"400 Mbps", Rate, 400e6},
		{"64KB", integer(Size), 64_000},
		{"64KiB", integer(Size), 65_536},
		{"95%", Share, .95},
		{"0.125", Share, .125},
	} {
		if got, err := c.read(c.in); err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", c.in, got, err, c.want)
		}
	}
}

func integer(f func(string) (int64, error)) func(string) (float64, error) {
	return func(s string) (float64, error) { v, err := f(s); return float64(v), err }
}

func TestBad(t *testing.T) {
	for _, s := range []string{"", "25", "us", "25 parsecs", "NaNus", "1e99s", "--1us"} {
		if v, err := Time(s); err == nil || !strings.Contains(err.Error(), "10us") {
			t.Errorf("%q: %v, %v; want an error with an example", s, v, err)
		}
	}
	for _, s := range []string{"0", "-1G", "5X"} {
		if v, err := Rate(s); err == nil {
			t.Errorf("%q: %v", s, v)
		}
	}
}
