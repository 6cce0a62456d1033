// SPDX-License-Identifier: Apache-2.0

package rtl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Limits of the time of one build, and of keeping its program.
const (
	buildLimit = 10 * time.Minute
	keep       = 30 * 24 * time.Hour
)

// Programs are what BuildModule runs. Tests require them.
var Programs = []string{"verilator", "g++", "make"}

// options are those of all builds. A warning of Verilator ends the build; Lint has more of them.
var options = []string{"--cc", "--exe", "--build", "-j", "1", "-CFLAGS", "-O1"}

// Source is a file of a program: its name, which ends in .sv, .cpp or .h, and its text.
type Source struct{ Name, Text string }

// ReadSources reads files. Verilator reads them in this order: packages come first.
func ReadSources(paths ...string) (sources []Source, err error) {
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		sources = append(sources, Source{filepath.Base(p), string(text)})
	}
	return sources, nil
}

// BuildModule returns the path of a program that simulates module top. Sources are the modules, and
// the C++ of the program, which includes "V<top>.h" and has main. The file must not be
// changed: others run it too.
func BuildModule(ctx context.Context, top string, sources ...Source) (string, error) {
	version, err := exec.CommandContext(ctx, "verilator", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("verilator --version: %w", err)
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %q %s", version, options, top)
	for _, s := range sources {
		fmt.Fprintf(hash, "%s %d %s", s.Name, len(s.Text), s.Text)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place to keep the program: %w", err)
	}
	program := filepath.Join(cache, "softroce-xdp", "verilate", top+"-"+hex.EncodeToString(hash.Sum(nil))[:24])
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	return program, build(ctx, top, program, sources)
}

// build makes the program in a directory of its own, and then moves it to its place, so that
// two builds at the same time do not disturb each other.
func build(ctx context.Context, top, program string, sources []Source) error {
	cache := filepath.Dir(program)
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return err
	}
	prune(cache)
	dir, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	args := append(append([]string{}, options...), "--top-module", top, "--Mdir", "obj", "-o", "program")
	for _, s := range sources {
		if err := os.WriteFile(filepath.Join(dir, s.Name), []byte(s.Text), 0o600); err != nil {
			return err
		}
		if !strings.HasSuffix(s.Name, ".h") {
			args = append(args, s.Name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "verilator", args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("verilator %s: %w\n%s", strings.Join(args, " "), errors.Join(err, ctx.Err()), out)
	}
	return os.Rename(filepath.Join(dir, "obj", "program"), program)
}

// prune removes what was built long ago. An error means that the file stays.
func prune(cache string) {
	entries, _ := os.ReadDir(cache)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > keep {
			os.RemoveAll(filepath.Join(cache, e.Name()))
		}
	}
}

// Lint returns what Verilator says of a module and the modules below it, as an error.
func Lint(ctx context.Context, top string, paths ...string) error {
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	args := append([]string{"--lint-only", "-Wall", "--top-module", top}, paths...)
	out, err := exec.CommandContext(ctx, "verilator", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("verilator %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
