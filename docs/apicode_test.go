// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Examples for users import API packages and each other, also in their tests.
func TestExamplesImportAPI(t *testing.T) {
	api := apiPackages(t)
	for _, p := range listPackages(t) {
		if !covers("examples/...", p.path()) {
			continue
		}
		for _, i := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if name, ours := strings.CutPrefix(i, module); ours && !slices.Contains(api, name) && !covers("examples/...", name) {
				t.Errorf("%s imports %s, which is no API package", p.path(), name)
			}
		}
	}
}

// Go code in the README and the documentation uses API packages only.
func TestDocumentationImportsAPI(t *testing.T) {
	var pages []string
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	api, blocks := apiPackages(t), 0
	var others []string // packages of the project that are no API
	for _, p := range listPackages(t) {
		if p.Name != "main" && !slices.Contains(api, p.path()) {
			others = append(others, p.path())
		}
	}
	for _, name := range append(pages, "../README.md") {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range goBlocks(string(page)) {
			blocks++
			for _, p := range othersIn(code, api, others) {
				t.Errorf("%s has code that uses %s, which is no API package:\n%s", name, p, code)
			}
		}
	}
	if blocks < 10 {
		t.Errorf("%d blocks of Go code: has their form changed?", blocks)
	}
}

var (
	fence  = regexp.MustCompile("(?ms)^```(\\w*)\\n(.*?)^```$")
	indent = regexp.MustCompile(`(?m)(?:^(?: {4}|\t).*\n(?:[ \t]*\n)*)+`)
	goCode = regexp.MustCompile(`:= |^package |\bfunc[ (]|"` + module)
)

// goBlocks returns the blocks of Go code of a page: fenced ones with the language go, and others that
// look like Go.
func goBlocks(page string) []string {
	var blocks []string
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		if m[1] == "go" || m[1] == "" && goCode.MatchString(m[2]) {
			blocks = append(blocks, m[2])
		}
	}
	for _, b := range indent.FindAllString(fence.ReplaceAllString(page, ""), -1) {
		if goCode.MatchString(b) {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// othersIn returns which of the packages code imports, or uses by their last name. A name that code
// declares, or that is that of an API package, is not such a use.
func othersIn(code string, api, others []string) []string {
	var used []string
	for _, p := range others {
		name := path.Base(p)
		sameName := func(a string) bool { return path.Base(a) == name }
		declared := regexp.MustCompile(`\b` + name + `\b[^\n()]*:=|\bvar ` + name + `\b|[(,] *` + name + ` [*\[\]a-z]`)
		selector := regexp.MustCompile(`(?:^|[^.\w"/])` + name + `\.[A-Z]`)
		switch {
		case strings.Contains(code, `"`+module+p+`"`),
			!slices.ContainsFunc(api, sameName) && selector.MatchString(code) && !declared.MatchString(code):
			used = append(used, p)
		}
	}
	return used
}

// What the search for code finds.
func TestGoBlocks(t *testing.T) {
	page := "Text.\n\n    dev, err := rdma.Open(ctx)\n\n    x := task.NewExecutor()\n\nmore\n\n    $ softroce-xdp status\n\n```go\nnode.Join()\n```\n```\nls\n```\n"
	blocks := goBlocks(page)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks: %q", len(blocks), blocks)
	}
	api, others := []string{"mempool/node", "rocev2/rdma"}, []string{"rocev2/task", "cc/node"}
	for code, want := range map[string][]string{
		blocks[0]: nil, blocks[1]: {"rocev2/task"},
		"task := f()\ntask.Run()":                  nil,
		`import "` + module + `cc/node"`:           {"cc/node"},
		"func f(task *Task) { task.Run() }":        nil,
		"err = x.task.Run()":                       nil,
		`import "` + module + `rocev2/rdma/stream`: nil,
	} {
		if got := othersIn(code, api, others); !slices.Equal(got, want) {
			t.Errorf("%q uses %q, want %q", code, got, want)
		}
	}
}
