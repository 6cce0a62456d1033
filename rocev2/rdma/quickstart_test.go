// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// quickStart returns client and server of the quick start in docs/program/applications.md as complete programs.
func quickStart(t *testing.T) (client, server string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/program/applications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n    package main\n")
	first, rest, found2 := strings.Cut(rest, "\nThe server answers")
	_, second, found3 := strings.Cut(rest, "\n    func main() {")
	second, _, found4 := strings.Cut(second, "\n## ")
	if !found || !found2 || !found3 || !found4 {
		t.Fatal("docs/program/applications.md has no client and server in its quick start")
	}
	client = strings.ReplaceAll("package main\n"+first, "\n    ", "\n")
	_, check, _ := strings.Cut(client, "func check(")
	imports := `import (
	"context"
	"log"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
)
`
	server = "package main\n" + imports + "func main() {" + strings.ReplaceAll(second, "\n    ", "\n") + "func check(" + check
	return client, server
}

// The programs of the quick start compile, and the client has at most 30 lines.
func TestQuickStart(t *testing.T) {
	client, server := quickStart(t)
	lines := 0
	for l := range strings.Lines(client) {
		if strings.TrimSpace(l) != "" {
			lines++
		}
	}
	if lines > 30 {
		t.Errorf("the client has %d lines", lines)
	}
	for name, program := range map[string]string{"client": client, "server": server} {
		dir := t.TempDir()
		file, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
		here, err := filepath.Abs("quickstart")
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "main.go"): file}})
		if err != nil {
			t.Fatal(err)
		}
		for f, text := range map[string][]byte{file: []byte(program), overlay: b} {
			if err := os.WriteFile(f, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command("go", "build", "-overlay", overlay, "-o", filepath.Join(dir, name), "./quickstart").CombinedOutput()
		if err != nil {
			t.Errorf("the %s does not compile: %s\n%s", name, out, program)
		}
	}
}
