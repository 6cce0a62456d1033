// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// source are the endings of files with Go and C.
var source = map[string]bool{".go": true, ".c": true, ".h": true}

// generatedPages are made from Go text, which has to be cleaned first.
var generatedPages = map[string]bool{
	"../docs/study/congestion-control.md": true,
}

// privateWord is a line of words.txt.
type privateWord struct {
	word, instead string
	part          string // longest part of the word without a space, in lower case
	pattern       *regexp.Regexp
}

// TestWords checks that the documentation, and the Go and C files of all packages, use the words of the field.
func TestWords(t *testing.T) {
	words := readWords(t)
	var pages []string
	for _, pattern := range []string{root + "/*.md", root + "/docs/*.md", root + "/docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		if !generatedPages[page] {
			checkWords(t, words, page, prose(readText(t, page)))
		}
	}
	files := sourceFiles(t)
	if len(files) == 0 {
		t.Fatal("no file with Go or C")
	}
	for _, file := range files {
		if file != filepath.Join(root, "docs/words_test.go") { // this file has them as examples
			checkWords(t, words, file, kernelName.ReplaceAllString(readText(t, file), "-"))
		}
	}
}

// sourceFiles returns all files with Go or C.
func sourceFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if source[filepath.Ext(path)] {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestWordsFound shows what the lint finds and what it ignores.
func TestWordsFound(t *testing.T) {
	words := readWords(t)
	for text, want := range map[string]string{
		"The ACK is on the way back.":                   "way back",
		"Its wayBack grows.":                            "way back",
		"type greeterConn struct{}":                     "greeter(s)",
		"two\nBatons":                                   "baton(s)",
		"packets under\nway to it":                      "under way",
		"// of the host's stack":                        "host's stack(s)",
		"the reverse path of a packet":                  "",
		"the register `wayBack` in code":                "",
		"a [link](way_back.md)":                         "",
		"text\n\n    output with way back\n\nmore":      "",
		"<!-- made -->\n| way back |\n<!-- end -->\nok": "",
		"wholehearted, besides":                         "",
	} {
		var got string
		for _, w := range words {
			if text := separate(prose(text)); w.pattern.MatchString(text) {
				if !strings.Contains(strings.ToLower(text), w.part) {
					t.Errorf("%q is found by %q, and has no %q", text, w.word, w.part)
				}
				got = w.word
			}
		}
		if got != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
}

func checkWords(t *testing.T, words []privateWord, path, text string) {
	t.Helper()
	text = separate(text)
	lower := strings.ToLower(text)
	for _, w := range words {
		if !strings.Contains(lower, w.part) {
			continue // the pattern cannot match, and takes much longer
		}
		for _, at := range w.pattern.FindAllStringIndex(text, -1) {
			t.Errorf("%s:%d: %q is a private word: write %q (docs/words.txt)", path, 1+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]], w.instead)
		}
	}
}

func readWords(t *testing.T) []privateWord {
	t.Helper()
	var words []privateWord
	for i, line := range strings.Split(readText(t, "words.txt"), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, instead, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("words.txt:%d: %q is not \"word: what to write\"", i+1, line)
		}
		pattern := strings.NewReplacer(`\(s\)`, "s?", " ", `[\s/*]+`).Replace(regexp.QuoteMeta(word))
		parts := strings.Fields(strings.ToLower(strings.TrimSuffix(word, "(s)")))
		part := slices.MaxFunc(parts, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
		words = append(words, privateWord{word, instead, part, regexp.MustCompile(`(?i)\b` + pattern + `\b`)})
	}
	return words
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	generatedPart = regexp.MustCompile(`(?s)<!-- .*?<!-- end -->`)
	literal       = regexp.MustCompile("(?m)(?s:```.*?```)|`[^`\n]*`|^    .*$|\\]\\([^)]*\\)")
	kernelName    = regexp.MustCompile(`\bunix\.\w+`) // a name of Linux, which may have such a word
	humps         = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// prose returns Markdown without code, program output, link targets and generated
// parts. Lines keep their numbers.
func prose(text string) string {
	blank := func(cut string) string { return "-" + strings.Repeat("\n", strings.Count(cut, "\n")) }
	return literal.ReplaceAllStringFunc(generatedPart.ReplaceAllStringFunc(text, blank), blank)
}

// separate splits identifiers into their words.
func separate(text string) string {
	return strings.ReplaceAll(humps.ReplaceAllString(text, "$1 $2"), "_", " ")
}
