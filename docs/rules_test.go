// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// importRule is an item of the list of rules: packages of from that are not in allBut do not import
// packages of to, unless except has them.
type importRule struct {
	text         string
	from, allBut []string // importing packages, without those of allBut; after "All but", from is all packages
	to, except   []string
	transitive   bool // the rule includes imports of imports
}

// ruleItem is an item of the list, its lines joined.
var ruleItem = func() *regexp.Regexp {
	const names = "(`[^`]+`(?:, `[^`]+`)*)"
	const from, to = "(All but )?" + names + "(?: but " + names + ")?", names + "(?: except " + names + ")?"
	return regexp.MustCompile("^- " + from + " (?:do|does) not (import|depend on) " + to + `\. (.+\.)$`)
}()

// quoted is a package in an item.
var quoted = regexp.MustCompile("`([A-Za-z0-9/._-]+)`")

// parseRules reads the rules of a page. An item that has the words of a rule and not the form is an
// error.
func parseRules(page string) ([]importRule, error) {
	var rules []importRule
	joined := regexp.MustCompile(`\n +`).ReplaceAllString(page, " ")
	for line := range strings.Lines(joined) {
		line = strings.TrimSuffix(line, "\n")
		m := ruleItem.FindStringSubmatch(line)
		if m == nil {
			if strings.HasPrefix(line, "- ") && regexp.MustCompile(`(?:do|does) not (import|depend on)`).MatchString(line) {
				return nil, fmt.Errorf("this is not of the form of a rule: %s", line)
			}
			continue
		}
		r := importRule{
			text: line, from: packagesIn(m[2]), allBut: packagesIn(m[3]), to: packagesIn(m[5]), except: packagesIn(m[6]), transitive: m[4] == "depend on",
		}
		if m[1] != "" {
			r.from, r.allBut = []string{"..."}, append(r.allBut, r.from...)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// packagesIn returns the packages of a part of an item.
func packagesIn(part string) []string {
	var names []string
	for _, m := range quoted.FindAllStringSubmatch(part, -1) {
		names = append(names, m[1])
	}
	return names
}

// listHas reports whether an entry of a list stands for a package.
func listHas(list []string, name string) bool {
	return slices.ContainsFunc(list, func(entry string) bool { return covers(entry, name) })
}

// importGraph has the imports of each package of this project. Names of this project have no module,
// all others are import paths.
type importGraph map[string][]string

// forbids reports whether a rule forbids the import of a package.
func (r *importRule) forbids(g importGraph, name string) bool {
	if listHas(r.except, name) {
		return false
	}
	return slices.ContainsFunc(r.to, func(entry string) bool {
		// "..." is all packages of this project, not the Go library.
		return covers(entry, name) && (entry != "..." || g[name] != nil)
	})
}

// appliesTo reports whether a rule is about the imports of a package.
func (r *importRule) appliesTo(name string) bool {
	return listHas(r.from, name) && !listHas(r.allBut, name)
}

// violations returns for each violation of a rule the path of imports.
func (r *importRule) violations(g importGraph) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(g)) {
		if r.appliesTo(name) {
			found = append(found, r.search(g, []string{name}, map[string]bool{})...)
		}
	}
	return found
}

// search returns the paths to forbidden packages that begin with path. It enters no package that the
// rule itself applies to, and none of seen.
func (r *importRule) search(g importGraph, path []string, seen map[string]bool) []string {
	var found []string
	for _, name := range g[path[len(path)-1]] {
		next := append(slices.Clip(path), name)
		switch {
		case r.forbids(g, name):
			found = append(found, strings.Join(next, " imports "))
		case r.transitive && !seen[name] && !r.appliesTo(name) && !listHas(r.except, name):
			seen[name] = true
			found = append(found, r.search(g, next, seen)...)
		}
	}
	return found
}
