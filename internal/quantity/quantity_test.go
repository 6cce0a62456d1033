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

// What is read is a number that the simulator can use, whatever was written.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"25us", "1e400s", "-1us", "0x1pms", "95%", "inf", "1_0us", "µs", "\xffus"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := Time(s); err == nil && (v < -1e12 || v > 1e12) {
			t.Errorf("%q is %d ns", s, v)
		}
		if v, err := Rate(s); err == nil && !(v >= 1 && v <= 1e14) {
			t.Errorf("%q is %v bit/s", s, v)
		}
		if v, err := Size(s); err == nil && (v < 0 || v > 1e15) {
			t.Errorf("%q is %d bytes", s, v)
		}
		if v, err := Share(s); err == nil && !(v >= 0 && v <= 1e3) {
			t.Errorf("%q is %v", s, v)
		}
	})
}

func TestExact(t *testing.T) {
	for got, want := range map[string]string{
		ExactRate(0): "0bit/s", ExactRate(999): "999bit/s", ExactRate(1_500_000): "1.5Mbit/s", ExactRate(1_000_000_001): "1.000000001Gbit/s",
		ExactRate(1 << 42): "4.398046511104Tbit/s", ExactTime(100_000): "100us", ExactTime(3_600_000_000_001): "3600.000000001s",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
