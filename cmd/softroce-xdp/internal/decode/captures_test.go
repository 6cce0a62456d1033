// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata/captures from what decode prints now")

// Captures of real traffic, which rocev2/testdata/captures/README.md describes, and
// what decode prints of them.
func TestCaptures(t *testing.T) {
	files, err := filepath.Glob("../../../../rocev2/testdata/captures/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pcap")
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			s, err := File(&got, file, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if s.RoCE == 0 || s.GoodICRC != s.Packets {
				t.Error(s)
			}
			golden := filepath.Join("testdata/captures", name+".txt")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got.String()); d != "" {
				t.Errorf("decode prints something else now (look, then -args -update):\n%s", d)
			}
		})
	}
}
