// SPDX-License-Identifier: Apache-2.0

//go:build long

package clib

import (
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

// TestPyverbsTable runs all modules, each in a process of its own. The table of the page is what came out; UPDATE=1 writes it.
func TestPyverbsTable(t *testing.T) {
	l := newPyverbsLab(t)
	var table strings.Builder
	table.WriteString("| module | passed | failed | skipped | total | missing |\n|---|---|---|---|---|---|\n")
	for _, module := range pyverbsModules {
		result := l.run(t, module)[module]
		if result == nil {
			t.Fatalf("no test of %s ran", module)
		}
		table.WriteString(result.row(module))
	}
	script.CheckDoc(t, commandsPage, map[string]string{"pyverbs": table.String()})
}
