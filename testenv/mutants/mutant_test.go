// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is one wrong version of a source file.
type mutant struct {
	name string // the fault in a few words
	file string // path in the folder of the area
	old  string // text that the file has exactly once
	new  string // text in place of old
	test string // top-level test of pkg that fails
	pkg  string // package of the test; "": the package of the area
}

// area is a part of the product with its mutants.
type area struct {
	name string
	dir  string // folder of the sources, from the root of the module
	pkg  string // package of the tests; "": dir
	pure bool   // the tests are short, and need neither root nor other programs
	root bool   // the tests need root
	env  string // one variable of the environment for the tests, or ""
	list []mutant

	quick int // number of mutants that run in `make test`, the first of the list; 0: three of a pure area, none of others
}

// runsQuick returns how many mutants of the area run in `make test`.
func (a *area) runsQuick() int {
	if a.quick == 0 && a.pure {
		return 3
	}
	return a.quick
}

var areas = []area{
	bpfIngress, bpfEgress, bpfLimits, requester, responder, regions, outOfOrder, connections, connectionService, sealing,
	scheduler, fourCase, preCredit, priorities, policyLoop, pacers, deviceLimits, deviceServer, completionRing, leases, planners, poolPages, spreading, endToEnd,
}

// packageOf returns the folder of the package with the test of m.
func (a *area) packageOf(m *mutant) string {
	switch {
	case m.pkg != "":
		return m.pkg
	case a.pkg != "":
		return a.pkg
	}
	return a.dir
}

// path returns the source file of m.
func (a *area) path(m *mutant) string { return filepath.Join(moduleRoot, a.dir, m.file) }

// source returns the wrong version.
func (a *area) source(t *testing.T, m *mutant) string {
	t.Helper()
	b, err := os.ReadFile(a.path(m))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), m.old); n != 1 {
		t.Fatalf("%s: %s has the text to replace %d times: adapt the mutant", m.name, filepath.Join(a.dir, m.file), n)
	}
	return strings.Replace(string(b), m.old, m.new, 1)
}

// TestTable checks that each mutant still changes its source, and that its test exists.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for i := range areas {
		a := &areas[i]
		if len(a.list) < 3 {
			t.Errorf("%s has %d mutants: write at least 3", a.name, len(a.list))
		}
		for j := range a.list {
			m := &a.list[j]
			if names[a.name+m.name] {
				t.Errorf("%s: two mutants are called %q", a.name, m.name)
			}
			names[a.name+m.name] = true
			a.source(t, m)
			if !hasTest(t, a.packageOf(m), m.test) {
				t.Errorf("%s: %s has no %s", m.name, a.packageOf(m), m.test)
			}
		}
	}
}

// hasTest reports whether a package has a test function of this name.
func hasTest(t *testing.T, pkg, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(moduleRoot, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "\nfunc "+test+"(t *testing.T") {
			return true
		}
	}
	return false
}
