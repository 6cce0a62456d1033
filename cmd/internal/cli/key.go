// SPDX-License-Identifier: Apache-2.0

package cli

import "strings"

// A Key is a printable character or one of these.
type Key string

// Keys that are no characters.
const (
	KeyUp        Key = "up"
	KeyDown      Key = "down"
	KeyLeft      Key = "left"
	KeyRight     Key = "right"
	KeyPageUp    Key = "page up"
	KeyPageDown  Key = "page down"
	KeyHome      Key = "home"
	KeyEscape    Key = "escape"
	KeyInterrupt Key = "interrupt"
)

// Scroll returns the first line of a list after the key; first is the one before it, page the number of lines that are
// shown. The result may be outside the list.
func (k Key) Scroll(first, page int) int {
	switch k {
	case KeyDown, "j":
		return first + 1
	case KeyUp, "k":
		return first - 1
	case KeyPageDown:
		return first + page
	case KeyPageUp:
		return first - page
	case KeyHome, "g":
		return 0
	}
	return first
}

// sequences that terminals send (ECMA-48 and xterm's application mode).
var sequences = []struct {
	bytes string
	key   Key
}{
	{"\x1b[A", KeyUp}, {"\x1bOA", KeyUp}, {"\x1b[B", KeyDown}, {"\x1bOB", KeyDown},
	{"\x1b[C", KeyRight}, {"\x1bOC", KeyRight}, {"\x1b[D", KeyLeft}, {"\x1bOD", KeyLeft},
	{"\x1b[5~", KeyPageUp}, {"\x1b[6~", KeyPageDown}, {"\x1b[H", KeyHome}, {"\x1b[1~", KeyHome}, {"\x1bOH", KeyHome},
}

// parseKeys splits what one read returned. A sequence is taken to arrive whole;
// an unknown one is ignored.
func parseKeys(in string) (keys []Key) {
next:
	for in != "" {
		for _, s := range sequences {
			if rest, ok := strings.CutPrefix(in, s.bytes); ok {
				keys, in = append(keys, s.key), rest
				continue next
			}
		}
		switch {
		case in == "\x1b":
			return append(keys, KeyEscape)
		case in[0] == '\x1b':
			return keys
		case in[0] == 3:
			keys = append(keys, KeyInterrupt)
		default:
			keys = append(keys, Key(in[:1]))
		}
		in = in[1:]
	}
	return keys
}
