// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// bpfObject is the committed object, which package bpf embeds.
const bpfObject = "bpf/softroce_bpfel.o"

func isBPF(file string) bool { return strings.HasSuffix(file, ".h") || strings.HasSuffix(file, ".c") }

// cflags finds the flags of the compiler in the go:generate line of package bpf.
var cflags = regexp.MustCompile(`-cflags "([^"]*)"`)

// compileBPF compiles a copy of the data plane in which one file is another one. It returns the committed object and
// the one that takes its place.
func compileBPF(t *testing.T, path, source string) (committed, object string) {
	t.Helper()
	require.Command(t, "clang-19", "llvm-strip-19")
	bpf := filepath.Join(moduleRoot, "bpf")
	within, err := filepath.Rel(bpf, path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, folder := range []string{"lib", "."} {
		files, err := filepath.Glob(filepath.Join(bpf, folder, "*.[ch]"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, folder, filepath.Base(f)), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, within), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	line, err := os.ReadFile(filepath.Join(bpf, "bpf.go"))
	if err != nil {
		t.Fatal(err)
	}
	flags := cflags.FindSubmatch(line)
	if flags == nil {
		t.Fatal("bpf/bpf.go has no go:generate line with -cflags")
	}
	object = filepath.Join(dir, "object.o")
	args := append(strings.Fields(string(flags[1])), "-target", "bpfel", "-c", "softroce.bpf.c", "-o", object)
	for _, cmd := range []*exec.Cmd{exec.Command("clang-19", args...), exec.Command("llvm-strip-19", "-g", object)} {
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args[0], err, out)
		}
	}
	return filepath.Join(moduleRoot, bpfObject), object
}
