// SPDX-License-Identifier: Apache-2.0

package texts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		"node-1 at 10.0.0.1: 5 MiB":     "node-1 at 10.0.0.1: 5 MiB",
		"Grüße, 世界 ✓":                   "Grüße, 世界 ✓",
		"\x1b[31mred\x1b[0m":            `\u001b[31mred\u001b[0m`,
		"\x1b]0;title\a":                `\u001b]0;title\u0007`,
		"two\nlines\r\ttab":             `two\u000alines\u000d\u0009tab`,
		"\u009b31m C1":                  `\u009b31m C1`,
		"a byte \x9b31m, half \xe4\xb8": `a byte \x9b31m, half \xe4\xb8`,
		"\x7f\x00\b":                    `\u007f\u0000\u0008`,
		"direction \u202e\u2066":        `direction \u202e\u2066`,
		"no width \u200b\ufeff":         `no width \u200b\ufeff`,
		"tag \U000e0041":                `tag \udb40\udc41`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// JSON with control characters means the same after Writer, and has none.
func TestWriter(t *testing.T) {
	in := map[string]string{"a": "\x1b[2J\u009b2J\u007f\u202e\U000e0041\n\t", "b": "世界"}
	var b bytes.Buffer
	e := json.NewEncoder(PrintableWriter{&b})
	e.SetIndent("", "\t")
	if err := e.Encode(in); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' && r != '\t' }) {
		t.Errorf("%q", s)
	}
	var out map[string]string
	if err := json.Unmarshal(b.Bytes(), &out); err != nil || fmt.Sprint(out) != fmt.Sprint(in) {
		t.Errorf("%q, %v; want %q", out, err, in)
	}
	if n, err := (PrintableWriter{&b}).Write([]byte("\x1b\x1b")); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := (PrintableWriter{failing{}}).Write([]byte("\x1b")); err == nil {
		t.Error("an error is lost")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func FuzzText(f *testing.F) {
	f.Add("\x1b[0m\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := Printable(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsGraphic(r) }) || Printable(got) != got {
			t.Errorf("%q: %q", s, got)
		}
	})
}
