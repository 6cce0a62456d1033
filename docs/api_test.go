// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// apiPage lists the API packages.
const apiPage = "program/api-packages.md"

// apiRow is a line of the table of API packages: package and sentence.
var apiRow = regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)` \\| (.+) \\|$")

// apiPackages returns the API packages of the page, without the module's path.
func apiPackages(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range apiRow.FindAllStringSubmatch(string(page), -1) {
		names = append(names, m[1])
	}
	if len(names) < 10 {
		t.Fatalf("%d API packages in %s: has its form changed?", len(names), apiPage)
	}
	return names
}

// A user of the API packages can name each type that their exported signatures mention.
func TestAPIMentionsOnlyAPI(t *testing.T) {
	api := apiPackages(t)
	arguments := []string{"-export", "-deps"}
	for _, name := range api {
		arguments = append(arguments, module+name)
	}
	list, err := goList(arguments...) // compiles what has changed
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for _, p := range list {
		exports[p.ImportPath] = p.Export
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
	var packages []*types.Package
	for _, name := range api {
		p, err := imports.Import(module + name)
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	ours := func(path string) bool { return strings.HasPrefix(path, module) }
	isAPI := func(path string) bool { return slices.Contains(api, strings.TrimPrefix(path, module)) }
	for _, line := range hiddenTypes(packages, ours, isAPI) {
		t.Error(strings.ReplaceAll(line, module, ""))
	}
}
