// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/confine"
)

// The table of capabilities in docs/run/operations.md has those of the unit.
func TestCapabilitiesOfTheUnit(t *testing.T) {
	unit, err := confine.Read("../packaging/softroce-xdp@.service.in")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("run/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)\n\| for \| capabilities \|\n.*?\n\n`).Find(page)
	var documented []string
	for _, name := range regexp.MustCompile(`CAP_[A-Z_]+`).FindAll(table, -1) {
		documented = append(documented, string(name))
	}
	want := unit.Words("CapabilityBoundingSet")
	slices.Sort(documented)
	slices.Sort(want)
	if !slices.Equal(documented, want) {
		t.Errorf("docs/run/operations.md has %q, the unit %q", documented, want)
	}
}
