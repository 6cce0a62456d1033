// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cleanPackages are the folders whose Go and C files have no private word. A package joins
// the list once it is clean.
var cleanPackages = []string{
	"bpf",
	"testenv/bench/xdpbench",
	"bpf/lib",
	"cc/sim/published",
	"cc/loop",
	"cc/priority",
	"cc/report",
	"cc/sim/experiment",
	"cc/sim/scenario",
	"rocev2/creditwire",
	"loader/device/limits",
	"loader/inspect",
	"rocev2/mr/clientmem",
	"rocev2/nic/internal/route",
	"rocev2/seal",
	"rocev2/nic/loopback",
	"cc/fourcase",
	"cc/precredit",
	"cc/precredit/internal/train",
	"cc/sim",
	"internal/quantity",
	"cc/sim/schemes",
	"cmd/softroce-xdp",
	"cmd/softroce-xdp/internal/decode",
	"cmd/softroce-xdp/internal/perf",
	"cmd/internal/cli",
	"cmd/internal/host",
	"cmd/internal/policy",
	"cmd/internal/view",
	"cmd/softroce-xdp/internal/attach",
	"cmd/softroce-xdp/internal/show",
	"cmd/softroce-pool",
	"cmd/softroce-pool/internal/pool",
	"cmd/softroce-card",
	"cmd/softroce-card/internal/card",
	"cmd/softroce-sim",
	"cmd/softroce-sim/internal/sim",
	"examples/allreduce",
	"docs",
	"hwoffload",
	"hwoffload/driver",
	"hwoffload/card",
	"hwoffload/internal/devtest",
	"hwoffload/regs",
	"hwoffload/regs/gen",
	"hwoffload/regs/layout",
	"hwoffload/rtl/rtltool",
	"hwoffload/rtl",
	"hwoffload/vectors",
	"internal/chart",
	"internal/texts",
	"internal/tokenbucket",
	"internal/spans",
	"internal/files",
	"loader",
	"loader/agent",
	"loader/agent/internal/discovery",
	"loader/engine",
	"loader/nodefile",
	"loader/pacer",
	"mempool/predict",
	"rocev2",
	"rocev2/cm",
	"rocev2/layers",
	"rocev2/mad",
	"rocev2/mem",
	"rocev2/mr",
	"rocev2/nic",
	"rocev2/nic/internal/loop",
	"rocev2/nic/internal/sched",
	"rocev2/nic/internal/qpn",
	"rocev2/ooo",
	"rocev2/qp",
	"rocev2/rdma",
	"rocev2/rdma/stream",
	"rocev2/task",
	"rocev2/verbs",
	"rocev2/xsk",
	"testenv/bench",
	"testenv/bench/carddemo",
	"testenv/bench/internal/ccreport",
	"testenv/bench/internal/netbench",
	"testenv/bench/internal/ooobench",
	"testenv/bench/internal/status",
	"testenv/bench/nicbench",
	"testenv/e2e",
	"testenv/conformance",
	"testenv/experiments/agents",
	"testenv/experiments/rates",
	"testenv/experiments/predict",
	"rocev2/nic/internal/cmservice",
	"testenv/lab/cmpeer",
	"testenv/lab/engines",
	"testenv/lab/load",
	"testenv/lab/faults",
	"testenv/lab/samples",
	"testenv/lab/require",
	"testenv/lab/rxepeer",
	"testenv/lab/rxepeer/guest",
	"testenv/lab/rxepeer/internal/agent",
	"testenv/lab/topo",
	"testenv/oracle",
	"testenv/e2e/pcibarguest",
	"testenv/oracle/helper",
	"testenv/oracle/sides",
	"testenv/wiretest",
}

// source are the endings of files with Go and C.
var source = map[string]bool{".go": true, ".c": true, ".h": true}

// generatedPages are made from Go text, which has to be cleaned first.
var generatedPages = map[string]bool{
	"../docs/study/congestion-control.md": true,
}

// privateWord is a line of words.txt.
type privateWord struct {
	word, instead string
	pattern       *regexp.Regexp
}

// TestWords checks that documentation and clean packages use the words of the field.
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
	for _, pkg := range cleanPackages {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*.[gch]*"))
		files = slices.DeleteFunc(files, func(f string) bool { return !source[filepath.Ext(f)] })
		if err != nil || len(files) == 0 {
			t.Fatalf("package %s: %d files, %v", pkg, len(files), err)
		}
		for _, file := range files {
			if file != filepath.Join(root, "docs/words_test.go") { // has them as examples
				checkWords(t, words, file, readText(t, file))
			}
		}
	}
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
			if w.pattern.MatchString(separate(prose(text))) {
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
	for _, w := range words {
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
		words = append(words, privateWord{word, instead, regexp.MustCompile(`(?i)\b` + pattern + `\b`)})
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
