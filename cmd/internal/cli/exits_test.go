// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

// The man pages of a program name its own commands for exit code 3, and no other program.
func TestManExitStatus(t *testing.T) {
	for _, name := range []string{"softroce-xdp", "softroce-pool", "softroce-card", "softroce-sim"} {
		dir := t.TempDir()
		p := Program{Name: name, Root: func() *cobra.Command { return &cobra.Command{Short: "A program"} }}
		if code := p.Run([]string{"man", dir}, os.Stdout, os.Stderr); code != ExitOK {
			t.Fatalf("%s man: exit code %d", name, code)
		}
		page, err := os.ReadFile(filepath.Join(dir, name+"-version.8"))
		if err != nil {
			t.Fatal(err)
		}
		status := regexp.MustCompile(`(?s)\.SH EXIT STATUS.*?\.SH`).Find(page)
		named := regexp.MustCompile(`softroce(?:\\-|-)(\w+)`).FindAllStringSubmatch(string(status), -1)
		others := slices.ContainsFunc(named, func(m []string) bool { return "softroce-"+m[1] != name })
		if len(named) == 0 || others {
			t.Errorf("%s: exit codes: %s", name, status)
		}
	}
}
