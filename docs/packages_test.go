// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// inside is the sentence of packages that are no API.
const inside = "Internal to this project."

// outsidePackages returns the packages that anybody can import by their path: those of this module with
// code, outside internal/, cmd, testenv and examples.
func outsidePackages(t *testing.T) []*listedPackage {
	t.Helper()
	var packages []*listedPackage
	for _, p := range listPackages(t) {
		top, _, _ := strings.Cut(p.path(), "/")
		if len(p.GoFiles) > 0 && !slices.Contains([]string{"cmd", "testenv", "examples"}, top) && !isInternal(p.path()) {
			packages = append(packages, p)
		}
	}
	return packages
}

func isInternal(name string) bool { return slices.Contains(strings.Split(name, "/"), "internal") }

// packageComment returns the package comment, with single spaces.
func packageComment(t *testing.T, p *listedPackage) string {
	t.Helper()
	var text []string
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc != nil {
			text = append(text, strings.Fields(f.Doc.Text())...)
		}
	}
	return strings.Join(text, " ")
}

// saysInside reports whether the first or the second sentence of a package comment says that the
// package is no API.
func saysInside(comment string) bool {
	first := new(doc.Package).Synopsis(comment)
	return strings.HasPrefix(comment, inside) || strings.HasPrefix(strings.TrimPrefix(comment, first), " "+inside)
}

// The list of API packages is exact: all others say in their comment that they are none.
func TestAPIListIsExact(t *testing.T) {
	api, found := apiPackages(t), map[string]bool{}
	for _, p := range outsidePackages(t) {
		found[p.path()] = true
		switch isAPI, says := slices.Contains(api, p.path()), saysInside(packageComment(t, p)); {
		case isAPI && says:
			t.Errorf("%s is in %s, and its comment says %q", p.path(), apiPage, inside)
		case !isAPI && !says:
			t.Errorf("%s is not in %s: the first or second sentence of its comment must be %q", p.path(), apiPage, inside)
		}
	}
	for _, name := range api {
		if !found[name] {
			t.Errorf("%s has %s, which is no package", apiPage, name)
		}
	}
}

// Which comments say that a package is no API.
func TestSaysInside(t *testing.T) {
	for comment, want := range map[string]bool{
		"Package a does b. Internal to this project. More.": true,
		"Internal to this project. More.":                   true,
		"Package a does b.":                                 false,
		"Package a does b. More. Internal to this project.": false,
		"": false,
	} {
		if saysInside(comment) != want {
			t.Errorf("%q: %t", comment, !want)
		}
	}
}

// The project has few packages, and few of them are API.
func TestPackageCounts(t *testing.T) {
	all := 0
	for _, p := range listPackages(t) {
		if p.Name != "docs" {
			all++
		}
	}
	for _, c := range []struct {
		what       string
		count, max int
	}{
		{"packages outside internal/, cmd, testenv and examples", len(outsidePackages(t)), 65},
		{"API packages", len(apiPackages(t)), 20},
		{"packages", all, 130},
	} {
		t.Logf("%d %s", c.count, c.what)
		if c.count > c.max {
			t.Errorf("%d %s; at most %d are wanted", c.count, c.what, c.max)
		}
	}
}

// Each API package has an example that `go doc` tools show.
func TestAPIHasExamples(t *testing.T) {
	for _, name := range apiPackages(t) {
		files, err := filepath.Glob(filepath.Join("..", name, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			found = found || len(doc.Examples(f)) > 0
		}
		if !found {
			t.Errorf("%s has no example", name)
		}
	}
}
