// SPDX-License-Identifier: Apache-2.0

package cli

import "strings"

// A Key is a printable character or one of these.
type Key string

// Keys that are no characters.
const (
	Up        Key = "up"
	Down      Key = "down"
	Left      Key = "left"
	Right     Key = "right"
	PageUp    Key = "page up"
	PageDown  Key = "page down"
	Home      Key = "home"
	Escape    Key = "escape"
	Interrupt Key = "interrupt"
)

// sequences that terminals send (ECMA-48 and xterm's application mode).
var sequences = []struct {
	bytes string
	key   Key
}{
	{"\x1b[A", Up}, {"\x1bOA", Up}, {"\x1b[B", Down}, {"\x1bOB", Down},
	{"\x1b[C", Right}, {"\x1bOC", Right}, {"\x1b[D", Left}, {"\x1bOD", Left},
	{"\x1b[5~", PageUp}, {"\x1b[6~", PageDown}, {"\x1b[H", Home}, {"\x1b[1~", Home}, {"\x1bOH", Home},
}

// ParseKeys splits what one read returned. A sequence is taken to arrive whole;
// an unknown one is ignored.
func ParseKeys(in string) (keys []Key) {
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
			return append(keys, Escape)
		case in[0] == '\x1b':
			return keys
		case in[0] == 3:
			keys = append(keys, Interrupt)
		default:
			keys = append(keys, Key(in[:1]))
		}
		in = in[1:]
	}
	return keys
}
