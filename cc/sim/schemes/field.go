// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"strconv"

	"github.com/softroce/softroce-xdp/internal/quantity"
)

// field is one parameter: where it lives and how it is read.
type field struct {
	name, about string
	set         func(string) error
	show        func() string // text of its default
}

// automatic is shown for what depends on the link or the path if left at 0.
const automatic = "by the path"

func show[T comparable](p *T, text func(T) string) func() string {
	return func() string {
		var zero T
		if *p == zero {
			return automatic
		}
		return text(*p)
	}
}

func read[T any](p *T, parse func(string) (T, error)) func(string) error {
	return func(s string) (err error) {
		v, err := parse(s)
		if err == nil {
			*p = v
		}
		return err
	}
}

func timeField(name string, p *int64, about string) field {
	return field{name, about, read(p, quantity.Time), show(p, func(v int64) string {
		return strconv.FormatFloat(float64(v)/1e3, 'f', -1, 64) + "us"
	})}
}

func rateField(name string, p *float64, about string) field {
	return field{name, about, read(p, quantity.Rate), show(p, func(v float64) string {
		return strconv.FormatFloat(v/1e9, 'f', -1, 64) + "Gbit/s"
	})}
}

func sizeField(name string, p *int64, about string) field {
	return field{name, about, read(p, quantity.Size), show(p, func(v int64) string {
		return strconv.FormatFloat(float64(v)/1e3, 'f', -1, 64) + "KB"
	})}
}

func shareField(name string, p *float64, about string) field {
	return field{name, about, read(p, quantity.Share), show(p, func(v float64) string {
		return strconv.FormatFloat(v, 'g', -1, 64)
	})}
}

func countField(name string, p *int, about string) field {
	return field{name, about, read(p, strconv.Atoi), func() string { return strconv.Itoa(*p) }}
}

func boolField(name string, p *bool, about string) field {
	return field{name, about, read(p, strconv.ParseBool), func() string { return strconv.FormatBool(*p) }}
}

func wordField(name string, p *string, about string) field {
	return field{name, about, read(p, func(s string) (string, error) { return s, nil }), func() string { return *p }}
}
