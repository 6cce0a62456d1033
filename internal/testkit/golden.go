// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Golden compares a text with a file of the repository. If they differ, the test fails, with the first line that
// differs. With UPDATE=1 in the environment Golden writes the file: read the difference before committing it.
func Golden(t testing.TB, path, text string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		Must(t, os.WriteFile(path, []byte(text), 0o644))
		return
	}
	file, err := os.ReadFile(path)
	if err != nil || string(file) != text {
		t.Errorf("%s is not what this test makes (%v): with UPDATE=1 the test writes it; first difference:\n%s", path, err, difference(string(file), text))
	}
}

// difference returns the first line that differs, of both texts.
func difference(file, text string) string {
	f, x := strings.Split(file, "\n"), strings.Split(text, "\n")
	for i := range min(len(f), len(x)) {
		if f[i] != x[i] {
			return fmt.Sprintf("line %d of the file: %s\nline %d of the text: %s", i+1, f[i], i+1, x[i])
		}
	}
	return fmt.Sprintf("%d lines in the file, %d in the text", len(f), len(x))
}
