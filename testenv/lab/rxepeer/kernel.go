// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// installModules copies the wanted modules and what they depend on from the unpacked
// kernel package into root, decompressed: one zstd over the whole initrd is
// smaller and, above all, faster to unpack in an emulated machine.
func installModules(ctx context.Context, kernelDir, version string, wanted []string, root string) error {
	from := filepath.Join(kernelDir, "usr/lib/modules", version)
	if _, err := output(ctx, nil, "depmod", "-b", kernelDir, version); err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(from, "modules.dep"))
	if err != nil {
		return err
	}
	defer f.Close()
	builtin, err := os.ReadFile(filepath.Join(from, "modules.builtin"))
	if err != nil {
		return err
	}
	files, err := moduleFiles(f, string(builtin), wanted)
	if err != nil {
		return fmt.Errorf("rxepeer: kernel %s: %w", version, err)
	}
	to := filepath.Join(root, "usr/lib/modules", version)
	for _, file := range files {
		if err := copyModule(ctx, filepath.Join(from, file), filepath.Join(to, file)); err != nil {
			return err
		}
	}
	for _, name := range []string{"modules.builtin", "modules.builtin.modinfo", "modules.order"} {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o644); err != nil {
			return err
		}
	}
	_, err = output(ctx, nil, "depmod", "-b", root, version)
	return err
}

// moduleFiles reads modules.dep ("path: path path ...", where the dependencies are
// already transitive) and returns the files of the wanted modules and theirs.
// A module that is built in needs no file; one that does not exist is an error.
func moduleFiles(dep io.Reader, builtin string, wanted []string) ([]string, error) {
	deps := map[string][]string{}
	sc := bufio.NewScanner(dep)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		file, rest, ok := strings.Cut(sc.Text(), ":")
		if !ok {
			return nil, fmt.Errorf("modules.dep: line without colon: %q", sc.Text())
		}
		deps[moduleName(file)] = append([]string{file}, strings.Fields(rest)...)
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	inKernel := map[string]bool{}
	for _, file := range strings.Fields(builtin) {
		inKernel[moduleName(file)] = true
	}
	var files []string
	seen := map[string]bool{}
	for _, w := range wanted {
		name := moduleName(w)
		if _, ok := deps[name]; !ok && !inKernel[name] {
			return nil, fmt.Errorf("no module %s", w)
		}
		for _, file := range deps[name] {
			if !seen[file] {
				seen[file] = true
				files = append(files, file)
			}
		}
	}
	return files, nil
}

func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".")
	return strings.ReplaceAll(name, "-", "_")
}

// copyModule copies one module, stripping .xz from content and name.
func copyModule(ctx context.Context, from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	to, packed := strings.CutSuffix(to, ".xz")
	if !packed {
		b, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o644)
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "xz", "-dc", from)
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		out.Close()
		return fmt.Errorf("rxepeer: xz -dc %s: %w", from, err)
	}
	return out.Close()
}
