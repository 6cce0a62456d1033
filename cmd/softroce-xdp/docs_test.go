// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/show"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

// root is the repository.
const root = "../.."

// The parts of docs/ between markers are made from the headers of the data plane and from
// the program. UPDATE=1 writes them.

func TestDocsOperations(t *testing.T) {
	var b strings.Builder
	b.WriteString("| number | counter | meaning |\n|---|---|---|\n")
	for _, r := range bpf.Reasons() {
		fmt.Fprintf(&b, "| %d | `%s` | %s |\n", r.Number, r.Name, r.Text)
	}
	var codes strings.Builder
	codes.WriteString("| code | meaning | |\n|---|---|---|\n")
	for _, c := range cli.ExitCodes("") {
		fmt.Fprintf(&codes, "| %d | %s | %s |\n", c.Number, c.Meaning, c.Detail)
	}
	var families strings.Builder
	families.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range show.Families() {
		fmt.Fprintf(&families, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, strings.Join(f.Labels, ", "), f.Help)
	}
	script.CheckDoc(t, script.OperationsPage, map[string]string{"reasons": b.String(), "exit codes": codes.String(), "metrics": families.String()})
}

func TestDocsTables(t *testing.T) {
	abi, policy, maps := script.ReadFile(t, "bpf/lib/abi.h"), script.ReadFile(t, "bpf/lib/policy.h"), script.ReadFile(t, "bpf/lib/maps.h")
	script.CheckDoc(t, script.TablesPage, map[string]string{
		"maps: made from bpf/lib/maps.h": mapTable(t, maps),
		"struct dest_regs":               structTable(t, abi, "struct dest_regs"),
		"struct sr_config":               structTable(t, abi, "struct sr_config"),
		"struct policy_regs":             structTable(t, policy, "struct policy_regs"),
		"struct policy_params":           structTable(t, policy, "struct policy_params"),
		"struct priority_params":         structTable(t, policy, "struct priority_params"),
		"struct priority_state":          structTable(t, policy, "struct priority_state"),
		"enum sr_cap":                    enumTable(t, abi, "enum sr_cap"),
	})
}

// The table of the reasons why a queue pair sends nothing is the comment of its constants.
func TestDocsSendLimits(t *testing.T) {
	var b strings.Builder
	b.WriteString("| reason | limit, unit | set by | lifted by |\n|---|---|---|---|\n")
	rows := regexp.MustCompile(`(?m)^//\t(Limit\w+) {2,}(.{30}) (.{15}) (.+)$`).FindAllStringSubmatch(script.ReadFile(t, "rocev2/qp/sendlimit.go"), -1)
	for i, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", qp.SendLimit(i+1), strings.TrimSpace(r[2]), strings.TrimSpace(r[3]), r[4])
	}
	if last := qp.SendLimit(len(rows)); last != qp.LimitSocket {
		t.Fatalf("%d reasons are described, up to %q; %q is the last one", len(rows), last, qp.LimitSocket)
	}
	script.CheckDoc(t, script.TransportPage, map[string]string{"send limits": b.String()})
}

// Links between the documents lead to existing files.
func TestDocsLinks(t *testing.T) {
	docs, err := filepath.Glob(root + "/docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range append(docs, root+"/README.md") {
		b, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`).FindAllStringSubmatch(string(b), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s: link to %s: %v", doc, m[1], err)
			}
		}
	}
}

var (
	fieldLine   = regexp.MustCompile(`^\s*(?:struct )?(\w+) (\w+)(\[\w+\])?;(?:\s*/\* (.*) \*/)?$`)
	groupLine   = regexp.MustCompile(`^\s*/\* (.*) \*/$`)
	enumerator  = regexp.MustCompile(`^\s*(\w+) = ([^,]+),(?:\s*/\* (.*) \*/)?$`)
	mapDeclared = regexp.MustCompile(`/\*((?:[^*]|\*[^/])*)\*/\n(?:struct \w+ \{[^}]*\};\n)?struct \{([^}]*)\} (\w+) SEC\("\.maps"\);`)
	mapType     = regexp.MustCompile(`BPF_MAP_TYPE_(\w+)`)
)

func body(t *testing.T, header, name string) []string {
	t.Helper()
	_, rest, ok := strings.Cut(header, "\n"+name+" {\n")
	if !ok {
		t.Fatalf("the header has no %s", name)
	}
	in, _, _ := strings.Cut(rest, "\n};")
	return strings.Split(in, "\n")
}

// structTable makes a row of each field. A comment on a line of its own heads a
// group; a line that is neither is a mistake in this parser or in the header.
func structTable(t *testing.T, header, name string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| field | type | meaning |\n|---|---|---|\n")
	for _, l := range body(t, header, name) {
		if strings.TrimSpace(l) == "" {
			continue
		}
		if m := groupLine.FindStringSubmatch(l); m != nil {
			fmt.Fprintf(&b, "| | | **%s** |\n", m[1])
		} else if m := fieldLine.FindStringSubmatch(l); m != nil {
			fmt.Fprintf(&b, "| `%s` | %s%s | %s |\n", m[2], strings.TrimPrefix(m[1], "__"), m[3], m[4])
		} else {
			t.Errorf("%s: line not understood: %q", name, l)
		}
	}
	return b.String()
}

func enumTable(t *testing.T, header, name string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| bit | name | meaning |\n|---|---|---|\n")
	for _, l := range body(t, header, name) {
		m := enumerator.FindStringSubmatch(l)
		if m == nil {
			t.Errorf("%s: line not understood: %q", name, l)
			continue
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", m[2], m[1], m[3])
	}
	return b.String()
}

// mapTable makes a row of each map with the comment above it.
func mapTable(t *testing.T, header string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| map | type | |\n|---|---|---|\n")
	found := mapDeclared.FindAllStringSubmatch(header, -1)
	if n := strings.Count(header, `SEC(".maps")`); n != len(found) {
		t.Errorf("maps.h has %d maps, of which %d have a comment that says who writes them", n, len(found))
	}
	for _, m := range found {
		words := strings.Fields(strings.ReplaceAll(m[1], "\n *", "\n"))
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m[3], strings.ToLower(mapType.FindStringSubmatch(m[2])[1]), strings.Join(words, " "))
	}
	return b.String()
}
