// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	raceConstraint = regexp.MustCompile(`(?m)^//go:build .*\brace\b.*$`)
	testFunction   = regexp.MustCompile(`(?m)^func ((?:Fuzz|Example)\w*|Test\w*)\(`)
)

// outsideStages returns what is wrong with a test file that the race detector leaves out: the stage nic-norace of
// `make test` finds tests of such files only in rocev2/nic, by one form of constraint.
func outsideStages(path, text string) string {
	constraint := raceConstraint.FindString(text)
	switch {
	case constraint == "" || !strings.HasSuffix(path, "_test.go"):
		return ""
	case filepath.Dir(path) != "rocev2/nic":
		return "a test file with a constraint on race is in no stage of the Makefile"
	case constraint != "//go:build !race":
		return "the stage nic-norace looks for //go:build !race"
	}
	for _, f := range testFunction.FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(f[1], "Test") {
			return f[1] + " is in no stage of the Makefile"
		}
	}
	return ""
}

// Each test runs in a stage of `make test`.
func TestStages(t *testing.T) {
	for _, path := range sourceFiles(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel("..", path)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := outsideStages(name, string(text)); wrong != "" {
			t.Errorf("%s: %s", name, wrong)
		}
	}
	for path, text := range map[string]string{
		"rocev2/cm/a_test.go":  "//go:build !race\n\nfunc TestA(t",
		"rocev2/nic/a_test.go": "//go:build linux && !race\n\nfunc TestA(t",
		"rocev2/nic/b_test.go": "//go:build !race\n\nfunc FuzzB(f",
	} {
		if outsideStages(path, text) == "" {
			t.Errorf("%s: nothing is wrong with\n%s", path, text)
		}
	}
}
