// SPDX-License-Identifier: Apache-2.0

package texts

// This file makes text of another host safe to print: a terminal obeys escape sequences and other control
// characters in what it shows.

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable returns s with an escape in place of all that is not graphic: control characters (new lines too), characters that
// change the direction of text or have no width, and bytes that are no UTF-8. An escape is one of JSON, such as \u001b,
// and \x80 for a byte.
func Printable(s string) string { return escape(s, "") }

// PrintableWriter writes to W what Printable would return, but keeps tabs and new lines. A character that is divided between two
// writes is not recognized. JSON remains the same JSON.
type PrintableWriter struct{ W io.Writer }

// Write implements io.Writer.
func (w PrintableWriter) Write(b []byte) (int, error) {
	s := string(b)
	safe := escape(s, "\t\n")
	if safe == s {
		return w.W.Write(b)
	}
	if _, err := io.WriteString(w.W, safe); err != nil {
		return 0, err
	}
	return len(b), nil
}

// escape replaces what is not graphic and not in keep.
func escape(s, keep string) string {
	good := func(r rune) bool { return unicode.IsGraphic(r) || strings.ContainsRune(keep, r) }
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !good(r) }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case good(r):
			b.WriteString(s[:n])
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String()
}
