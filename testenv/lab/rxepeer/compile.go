// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// CompileC builds a program for the machines from the .c and .h files at the top of sources, with
// the host's gcc but the headers and libraries of the machine's own release, and returns its path.
// The result is stored next to the image under a name made of the sources' hash, so it is built
// once; libs are linker names such as "ibverbs".
func (img *Image) CompileC(ctx context.Context, name string, sources fs.FS, libs ...string) (string, error) {
	if err := needTools([]tool{{"gcc", "gcc"}}); err != nil {
		return "", fmt.Errorf("rxepeer: to build %s this host lacks %w", name, err)
	}
	flags := []string{"-std=gnu11", "-O2", "-g1", "-Wall", "-Wextra", "-Werror"}
	files, err := fs.Glob(sources, "*.[ch]")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q", flags, libs)
	for _, f := range files {
		b, err := fs.ReadFile(sources, f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", f, len(b), b)
	}
	out := filepath.Join(filepath.Dir(img.Sysroot), name+"-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		return out, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(out), name+".build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, sources); err != nil {
		return "", err
	}
	// gcc looks for start files and libc in its own folder before it looks below --sysroot.
	libDir := filepath.Join(img.Sysroot, "usr/lib/x86_64-linux-gnu")
	args := append([]string{"--sysroot=" + img.Sysroot, "-B" + libDir, "-L" + libDir}, flags...)
	for _, f := range files {
		if strings.HasSuffix(f, ".c") {
			args = append(args, filepath.Join(dir, f))
		}
	}
	built := filepath.Join(dir, name)
	args = append(args, "-o", built)
	for _, l := range libs {
		args = append(args, "-l"+l)
	}
	if _, err := output(ctx, nil, "gcc", args...); err != nil {
		return "", err
	}
	return out, os.Rename(built, out)
}
