// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRate(t *testing.T) {
	for s, want := range map[string]uint64{
		"100M": 100e6, "2.5G": 2.5e9, "25Gbit": 25e9, "25 gbit/s": 25e9, "400000000": 400e6,
		"9600bps": 9600, "1T": 1e12, " 10k ": 10_000, "1": 1,
	} {
		if got, err := ParseRate(s); err != nil || got != want {
			t.Errorf("ParseRate(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "G", "fast", "-1M", "0", "0.1", "NaN", "inf", "200T", "1e300", "10MM", "10 B"} {
		if got, err := ParseRate(s); err == nil {
			t.Errorf("ParseRate(%q) = %d, want an error", s, got)
		}
	}
	for bps, want := range map[uint64]string{
		0: "0", 999: "999", 1000: "1k", 97_340_000: "97.3M", 999_950: "1M", 10e9: "10G", 2_500_000_000: "2.5G",
	} {
		if got := Rate(bps); got != want {
			t.Errorf("Rate(%d) = %q, want %q", bps, got, want)
		}
	}
}

func TestNanos(t *testing.T) {
	for ns, want := range map[int64]string{
		0: "0ns", 999: "999ns", 1000: "1us", 12_345: "12.3us", 123_456: "123us", 999_500: "1ms",
		-1_250_000: "-1.25ms", 2_500_000_000: "2.5s", -7_200_000_000_000: "-7200s",
	} {
		if got := Nanos(ns); got != want {
			t.Errorf("Nanos(%d) = %q, want %q", ns, got, want)
		}
	}
	for _, s := range []string{"", "5", "-1ms", "fast", "1 ms"} {
		if got, err := ParseNanos(s); err == nil {
			t.Errorf("ParseNanos(%q) = %d, want an error", s, got)
		}
	}
}

// What is written is read back, up to the digits that are shown.
func TestNanosReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Int64Range(0, 1<<60).Draw(t, "ns")
		got, err := ParseNanos(Nanos(ns))
		if err != nil || math.Abs(float64(got)-float64(ns)) > 0.006*float64(ns) {
			t.Fatalf("%d is written %s, read as %d (%v)", ns, Nanos(ns), got, err)
		}
	})
}

func TestShareReadBack(t *testing.T) {
	for q := range uint32(one + 1) {
		if got, err := ParseShare(Share(q)); err != nil || got != q {
			t.Fatalf("%d is written %s, read as %d (%v)", q, Share(q), got, err)
		}
	}
	for _, s := range []string{"", "%", "1.5", "101%", "-1%", "NaN", "half"} {
		if got, err := ParseShare(s); err == nil {
			t.Errorf("ParseShare(%q) = %d, want an error", s, got)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		999 * time.Millisecond: "0s", 42 * time.Second: "42s", 190 * time.Second: "3m10s",
		5*time.Hour + 12*time.Minute + 59*time.Second: "5h12m", 220*time.Hour + 10*time.Minute: "9d4h",
	} {
		if got := Lasted(d); got != want {
			t.Errorf("Span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]uint64{"1": 1, "64": 64, "4K": 4096, "4KiB": 4096, "64kb": 65536, "1M": 1 << 20, "2g": 2 << 30} {
		if got, err := ParseBytes(in); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0", "K", "-1", "1.5M", "4T", "99999999999"} {
		if got, err := ParseBytes(in); err == nil {
			t.Errorf("ParseBytes(%q) = %d, want an error", in, got)
		}
	}
}
