// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/softroce/softroce-xdp/"

// packageEntry is an entry of the package map in architecture.md: "- `a`, `b`: text. Imports `c`."
var packageEntry = regexp.MustCompile("(?ms)^- ((?:`[a-z0-9/-]+`(?:, | and )?)+)(.*?)(?:^- |^\\*\\*|\\n\\n|\\z)")

// importsOf is what an entry says of imports, by package; a package whose entry says nothing is
// missing.
func importsOf(page string) map[string][]string {
	names := regexp.MustCompile("`([a-z0-9/.-]+)`")
	all := map[string][]string{}
	for len(page) > 0 {
		m := packageEntry.FindStringSubmatchIndex(page)
		if m == nil {
			break
		}
		head, text := page[m[2]:m[3]], page[m[4]:m[5]]
		page = page[m[5]:]
		at := regexp.MustCompile(`\bImports? `).FindStringIndex(text)
		if at == nil {
			continue
		}
		list := []string{}
		if strings.HasPrefix(text[at[1]:], "anything") {
			list = []string{"..."}
		}
		for _, n := range names.FindAllStringSubmatch(text[at[1]:], -1) {
			list = append(list, n[1])
		}
		for _, n := range names.FindAllStringSubmatch(head, -1) {
			all[n[1]] = append(all[n[1]], list...)
		}
	}
	return all
}

// A package imports nothing of this module that its entry in architecture.md does not list.
func TestArchitectureImports(t *testing.T) {
	page, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	allowed := importsOf(string(page))
	if len(allowed) < 50 {
		t.Fatalf("%d packages with imports in architecture.md: has its form changed?", len(allowed))
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		name := strings.TrimPrefix(words[0], module)
		list, ok := allowed[name]
		if !ok {
			continue
		}
		for _, imported := range words[1:] {
			to, internal := strings.CutPrefix(imported, module)
			if !internal || slices.ContainsFunc(list, func(a string) bool { return covers(a, to) }) {
				continue
			}
			t.Errorf("%s imports %s: architecture.md does not list it", name, to)
		}
	}
}

// covers reports whether an entry of a list stands for a package: "a/b" for itself, "a/..." for all
// below it, and "..." for all.
func covers(entry, name string) bool {
	if below, ok := strings.CutSuffix(entry, "..."); ok {
		return strings.HasPrefix(name+"/", below)
	}
	return entry == name
}
