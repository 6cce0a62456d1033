// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

type file struct {
	List []struct {
		Count  uint8      `yaml:"count"`
		Signed int        `yaml:"signed"`
		On     bool       `yaml:"on"`
		Addr   netip.Addr `yaml:"addr"`
		Name   string     `yaml:"name"`
	} `yaml:"list"`
}

func decode(text string) (f file, err error) {
	return f, DecodeYAML(strings.NewReader(text), &f)
}

func TestDecode(t *testing.T) {
	f, err := decode("list:\n  - {count: 7, signed: -1, on: true, addr: fd00::1, name: x}\n")
	if err != nil || len(f.List) != 1 {
		t.Fatal(err)
	}
	if x := f.List[0]; x.Count != 7 || x.Signed != -1 || !x.On || x.Addr != netip.MustParseAddr("fd00::1") || x.Name != "x" {
		t.Errorf("%+v", x)
	}
	for _, text := range []string{"", "# nothing\n"} {
		if _, err := decode(text); !errors.Is(err, ErrEmpty) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// No error names a type or a function of Go.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"lst: []\n":                        `line 1: there is no key "lst": did you mean list? There are list`,
		"list: 5\n":                        "line 1: expected a list (lines that begin with -)",
		"list:\n":                          "line 1: list needs a value",
		"5\n":                              "line 1: expected keys with values: list",
		"list:\n  - {count: 300}\n":        `line 2: "300" is no whole number from 0 to 255`,
		"list:\n  - {count: [1]}\n":        "line 2: expected one value",
		"list:\n  - {signed: x}\n":         `line 2: "x" is no whole number`,
		"list:\n  - {on: maybe}\n":         `line 2: "maybe" is neither true nor false`,
		"list:\n  - {addr: 10.0.0}\n":      `line 2: "10.0.0" is no IP address: write for example 10.0.0.1 or fd00::1`,
		"list:\n  - {addr: {a: b}}\n":      `line 2: "" is no IP address`,
		"list:\n  - {name: a, name: b}\n":  "line 2: name stands in line 2 already",
		"list: [\n":                        "line 1: did not find expected node content",
		"list: []\n---\nlist: []\n":        "holds more than one document",
		"list: \xff\n":                     "is not text",
		"list: \x00\n":                     "is not text",
		strings.Repeat("# more\n", 3<<20):  "is larger than 16 MiB",
		"list: &a\n  - {name: *a}\n":       "line 1: expected one value",
		"list:\n  - {name: 'x\n":           "found unexpected end of stream",
		"list:\n  - {count: 1, on: 1.5}\n": `line 2: "1.5" is neither true nor false`,
	} {
		if _, err := decode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}
