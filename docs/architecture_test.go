// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// rulesPage has the list of rules.
const rulesPage = "change/architecture.md"

func pageRules(t *testing.T) []importRule {
	t.Helper()
	page, err := os.ReadFile(rulesPage)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := parseRules(string(page))
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) < 10 {
		t.Fatalf("%d rules in %s: has its form changed?", len(rules), rulesPage)
	}
	return rules
}

// projectImports returns the imports of this project, without those of tests.
func projectImports(t *testing.T) importGraph {
	t.Helper()
	g := importGraph{}
	for _, p := range listPackages(t) {
		g[p.path()] = []string{}
		for _, i := range p.Imports {
			g[p.path()] = append(g[p.path()], strings.TrimPrefix(i, module))
		}
	}
	return g
}

// The packages keep the rules of the page.
func TestArchitectureRules(t *testing.T) {
	g := projectImports(t)
	for _, r := range pageRules(t) {
		for _, v := range r.violations(g) {
			t.Errorf("%s\nThe rule: %s", v, r.text)
		}
	}
}

// Packages of the rules exist or are imported: rules of a package that was moved would say nothing.
func TestArchitectureRulesNameExistingPackages(t *testing.T) {
	known := map[string]bool{}
	for _, p := range listPackages(t) {
		known[p.path()] = true
		for _, i := range p.Imports { // the Go library and other modules
			known[strings.TrimPrefix(i, module)] = true
		}
	}
	for _, r := range pageRules(t) {
		for _, list := range [][]string{r.from, r.allBut, r.to, r.except} {
			for _, entry := range list {
				found := false
				for name := range known {
					found = found || covers(entry, name)
				}
				if !found {
					t.Errorf("no package is %s\nThe rule: %s", entry, r.text)
				}
			}
		}
	}
}

// Each rule of the page reports an import that no other rule forbids. A rule for which there is no such
// import is superfluous. A rule of "depend on" also reports an import of an import.
func TestArchitectureRulesFail(t *testing.T) {
	rules := pageRules(t)
	for i := range rules {
		r := &rules[i]
		from, to := onlyBreaks(rules, i)
		if from == "" {
			t.Errorf("other rules forbid all that this rule forbids: %s", r.text)
			continue
		}
		if got := r.violations(importGraph{from: {"fmt"}, to: {}}); len(got) != 0 {
			t.Errorf("%q\nThe rule: %s", got, r.text)
		}
		through := r.violations(importGraph{from: {"between"}, "between": {to}, to: {}})
		if reported := slices.Contains(through, from+" imports between imports "+to); reported != r.transitive {
			t.Errorf("%s imports between imports %s: %q\nThe rule: %s", from, to, through, r.text)
		}
	}
}

// onlyBreaks returns two packages such that the import of the second by the first breaks rule i and no
// other one.
func onlyBreaks(rules []importRule, i int) (from, to string) {
	for _, from := range examplesOf(rules[i].from) {
		for _, to := range examplesOf(rules[i].to) {
			var broken []int
			for j := range rules {
				if len(rules[j].violations(importGraph{from: {to}, to: {}})) == 1 {
					broken = append(broken, j)
				}
			}
			if slices.Equal(broken, []int{i}) {
				return from, to
			}
		}
	}
	return "", ""
}

// examplesOf returns packages that a list covers.
func examplesOf(list []string) []string {
	var names []string
	for _, entry := range list {
		switch above, ok := strings.CutSuffix(entry, "/..."); {
		case entry == "...":
			names = append(names, "another")
		case ok:
			names = append(names, above+"/another", above)
		default:
			names = append(names, entry)
		}
	}
	return names
}
