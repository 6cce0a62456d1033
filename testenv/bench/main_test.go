// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"testing"
)

// The Makefile and the documentation name subcommands.
func TestNamedSubcommands(t *testing.T) {
	root := newRoot()
	for file, least := range map[string]int{"../../Makefile": 6, "../../docs/reference/benchmarks.md": 4, "../../docs/change/development.md": 1} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?:bin|testenv)/bench ([a-z]+)`).FindAllSubmatch(text, -1)
		if len(found) < least {
			t.Errorf("%s names %d subcommands, want at least %d", file, len(found), least)
		}
		for _, m := range found {
			if cmd, _, err := root.Find([]string{string(m[1])}); err != nil || cmd == root {
				t.Errorf("%s: %s: no such subcommand", file, m[0])
			}
		}
	}
}
