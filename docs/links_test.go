// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
	"unicode/utf8"

	"github.com/softroce/softroce-xdp/internal/texts"
)

// start is the page from which every other page of docs is reached.
const start = "docs/README.md"

// TestLinks checks lines, links and mentions of pages in the tree.
func TestLinks(t *testing.T) {
	tree := os.DirFS(root)
	var paths []string
	for _, p := range sources(t, root, ".md", ".go", "Makefile", ".h", ".c", ".yaml", ".sv", ".tmpl") {
		rel, err := filepath.Rel(root, p)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, filepath.ToSlash(rel))
	}
	pages := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !isPage(p) })
	if len(pages) < 30 {
		t.Fatalf("only %d pages: is %q the repository?", len(pages), root)
	}
	files := sources(t, root+"/docs", ".md", ".txt", ".svg", ".lua")
	for i, f := range files {
		files[i] = "docs/" + strings.TrimPrefix(filepath.ToSlash(f), root+"/docs/")
	}
	files = slices.DeleteFunc(files, func(f string) bool { return f == "docs/words.txt" }) // of a test
	for _, problem := range checkPages(t, tree, pages, files) {
		t.Error(problem)
	}
	for _, p := range paths {
		if p != "docs/links_test.go" && !strings.HasSuffix(p, ".md") {
			for _, problem := range deadMentions(t, tree, p) {
				t.Error(problem)
			}
		}
	}
}

// isPage reports whether the links of a file are checked: those of the top folder and of docs.
func isPage(p string) bool {
	return strings.HasSuffix(p, ".md") && (!strings.Contains(p, "/") || strings.HasPrefix(p, "docs/"))
}

// checkPages returns what is wrong in pages: lines that are too long, links and anchors that lead
// nowhere, and files of docs that cannot be reached from start.
func checkPages(t *testing.T, tree fs.FS, pages, files []string) (problems []string) {
	t.Helper()
	reached, queue := map[string]bool{start: true}, []string{start}
	links := map[string][]string{}
	for _, p := range pages {
		text := readTree(t, tree, p)
		for i, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > texts.MarkdownWidth && p != "CHANGELOG.md" {
				problems = append(problems, fmt.Sprintf("%s:%d: %d columns, at most %d", p, i+1, n, texts.MarkdownWidth))
			}
		}
		for _, l := range targets(text) {
			file, anchor, _ := strings.Cut(l, "#")
			to := p
			if file != "" {
				to = path.Join(path.Dir(p), file)
			}
			if _, err := fs.Stat(tree, to); err != nil {
				problems = append(problems, fmt.Sprintf("%s: link to %s: %s does not exist", p, l, to))
				continue
			}
			if anchor != "" && !slices.Contains(anchors(readTree(t, tree, to)), anchor) {
				problems = append(problems, fmt.Sprintf("%s: link to %s: %s has no such heading", p, l, to))
			}
			links[p] = append(links[p], to)
		}
	}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		for _, to := range links[p] {
			if !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
	}
	for _, f := range files {
		if !reached[f] {
			problems = append(problems, fmt.Sprintf("%s cannot be reached by links from %s", f, start))
		}
	}
	return problems
}

var (
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code       = regexp.MustCompile("(?m)(?s:^```.*?^```)|`[^`\n]*`|^    .*$")
	heading    = regexp.MustCompile(`(?m)^#+ +(.*?) *$`)
	htmlAnchor = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// targets returns the targets of links and images of a page, without those of other sites.
func targets(text string) (all []string) {
	for _, m := range linkTarget.FindAllStringSubmatch(code.ReplaceAllString(text, "-"), -1) {
		if !strings.Contains(m[1], ":") {
			all = append(all, m[1])
		}
	}
	return all
}

// anchors returns the anchors that GitHub makes of the headings of a page.
func anchors(text string) (all []string) {
	seen := map[string]int{}
	fenced := regexp.MustCompile("(?ms)^```.*?^```")
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := linkText.ReplaceAllString(m[1], "$1")
		var b strings.Builder
		for _, r := range strings.ToLower(name) {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				b.WriteRune(r)
			case r == ' ':
				b.WriteByte('-')
			}
		}
		a := b.String()
		if n := seen[a]; n > 0 {
			all = append(all, fmt.Sprintf("%s-%d", a, n))
		} else {
			all = append(all, a)
		}
		seen[a]++
	}
	for _, m := range htmlAnchor.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

var (
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	mention  = regexp.MustCompile(`(?:^|[^\w./-])(?:\.\./)*(docs/[\w./-]*\w)`)
)

// deadMentions returns the paths below docs that a source file or the Makefile names and that do
// not exist.
func deadMentions(t *testing.T, tree fs.FS, p string) (problems []string) {
	t.Helper()
	for i, line := range strings.Split(readTree(t, tree, p), "\n") {
		for _, m := range mention.FindAllStringSubmatch(line, -1) {
			if _, err := fs.Stat(tree, m[1]); err != nil {
				problems = append(problems, fmt.Sprintf("%s:%d: %s does not exist", p, i+1, m[1]))
			}
		}
	}
	return problems
}

func readTree(t *testing.T, tree fs.FS, p string) string {
	t.Helper()
	if info, err := fs.Stat(tree, p); err == nil && info.IsDir() {
		return ""
	}
	b, err := fs.ReadFile(tree, p)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestLinksFound breaks each rule in a small tree.
func TestLinksFound(t *testing.T) {
	good := map[string]string{
		"README.md":      "# A\n[docs](docs/README.md), [b](docs/run/b.md#two-words)\n",
		"docs/README.md": "[b](run/b.md) ![p](img/p.svg) `[code](none.md)` [site](https://example.com/x)\n",
		"docs/run/b.md":  "# B\n## Two `words`\n[up](../README.md) [here](#two-words)\n    [literal](none.md)\n",
		"docs/img/p.svg": "",
		"a.go":           "// See docs/run/b.md.\n",
		"Makefile":       "x: ## docs/img/p.svg\n",
	}
	check := func(change map[string]string) (problems []string) {
		tree := fstest.MapFS{}
		for name, text := range good {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
		var pages, files []string
		for name, text := range change {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
		for name := range tree {
			if strings.HasPrefix(name, "docs/") {
				files = append(files, name)
			}
			if isPage(name) {
				pages = append(pages, name)
			} else if name == "Makefile" || strings.HasSuffix(name, ".go") {
				problems = append(problems, deadMentions(t, tree, name)...)
			}
		}
		return append(problems, checkPages(t, tree, pages, files)...)
	}
	if problems := check(nil); len(problems) > 0 {
		t.Errorf("the good tree: %q", problems)
	}
	for _, c := range []struct{ name, text, want string }{
		{"docs/run/b.md", "# B\n## Two words\n" + strings.Repeat("x", 201) + "\n", "docs/run/b.md:3: 201 columns, at most 200"},
		{"README.md", "[docs](docs/README.md) [c](docs/c.md)\n", "README.md: link to docs/c.md: docs/c.md does not exist"},
		{"README.md", "[docs](docs/README.md) [b](docs/run/b.md#three)\n", "README.md: link to docs/run/b.md#three: docs/run/b.md has no such heading"},
		{"docs/run/b.md", "## Two words\n[here](#three)\n", "docs/run/b.md: link to #three: docs/run/b.md has no such heading"},
		{"docs/run/c.md", "# C\n", "docs/run/c.md cannot be reached by links from docs/README.md"},
		{"docs/img/q.svg", "", "docs/img/q.svg cannot be reached by links from docs/README.md"},
		{"a.go", "package a // docs/b.md\n", "a.go:1: docs/b.md does not exist"},
		{"a.go", "const p = \"../docs/run/none\"\n", "a.go:1: docs/run/none does not exist"},
		{"Makefile", "x: ## writes docs/none.svg\n", "Makefile:1: docs/none.svg does not exist"},
	} {
		if problems := check(map[string]string{c.name: c.text}); !slices.Equal(problems, []string{c.want}) {
			t.Errorf("%s with %q: %q, want %q", c.name, c.text, problems, c.want)
		}
	}
}
