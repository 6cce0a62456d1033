// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The fingerprint begins at this package. Everything that the runs need is imported by
// it, directly or not.
const measured = "cc/report"

// drawing is code that changes pictures or this test, but no figure.
var drawing = []string{"internal/chart", "cc/report/plots.go", "cc/report/heat.go", "cc/report/fingerprint.go", "cc/report/quick.go"}

// Fingerprint identifies the sources that decide the report's figures and words: the Go
// code of this package and of all packages of the module below it, what they embed (the
// library, the template), and the versions of other modules. It ignores comments,
// formatting, tests and the code of drawing, so that none of these asks for the runs
// to be repeated. dir is a directory of the module.
func Fingerprint(dir string) (string, error) {
	m, err := findModule(dir)
	if err != nil {
		return "", err
	}
	s := sources{module: m, seen: map[string]bool{}}
	if err := s.add(measured); err != nil {
		return "", err
	}
	slices.Sort(s.parts)
	h := sha256.New()
	for _, p := range slices.Compact(s.parts) {
		io.WriteString(h, p+"\n")
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// module is where a module is and what its go.mod says.
type module struct {
	root, path string
	require    [][2]string // path and version
}

// findModule reads the go.mod of the directory or of the nearest one above it.
func findModule(dir string) (m module, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return m, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		text, err = os.ReadFile(filepath.Join(dir, "go.mod"))
	}
	if err != nil {
		return m, fmt.Errorf("report: the sources are not here (run this in the repository): %w", err)
	}
	m.root = dir
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(strings.TrimPrefix(lines.Text(), "require "))
		switch {
		case len(fields) < 2:
		case fields[0] == "module":
			m.path = fields[1]
		case strings.HasPrefix(fields[1], "v"):
			m.require = append(m.require, [2]string{fields[0], fields[1]})
		}
	}
	return m, nil
}

// sources collects a line for each file and each module that decides something.
type sources struct {
	module
	seen  map[string]bool // packages
	parts []string
}

// add adds a package, by its directory in the module, and what it imports.
func (s *sources) add(pkg string) error {
	if s.seen[pkg] || slices.Contains(drawing, pkg) {
		return nil
	}
	s.seen[pkg] = true
	files, err := filepath.Glob(filepath.Join(s.root, pkg, "*.go"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("report: no sources in %s: %w", filepath.Join(s.root, pkg), errors.Join(err, fs.ErrNotExist))
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if err := s.file(pkg, file); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return nil
}

// file adds a Go file, what it embeds and what it imports.
func (s *sources) file(pkg, file string) error {
	name := path.Join(pkg, filepath.Base(file))
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	for _, i := range parsed.Imports {
		if err := s.imported(i); err != nil {
			return err
		}
	}
	if slices.Contains(drawing, name) {
		return nil
	}
	s.parts = append(s.parts, name+" "+tokens(text))
	return s.embedded(pkg, text)
}

func (s *sources) imported(i *ast.ImportSpec) error {
	target, err := strconv.Unquote(i.Path.Value)
	if err != nil {
		return err
	}
	if own, ok := strings.CutPrefix(target, s.path+"/"); ok {
		return s.add(own)
	}
	for _, r := range s.require {
		if target == r[0] || strings.HasPrefix(target, r[0]+"/") {
			s.parts = append(s.parts, r[0]+" "+r[1])
		}
	}
	return nil
}

// embedded adds the files that a Go file embeds.
func (s *sources) embedded(pkg string, text []byte) error {
	for line := range strings.Lines(string(text)) {
		patterns, ok := strings.CutPrefix(line, "//go:embed ")
		if !ok {
			continue
		}
		for _, pattern := range strings.Fields(patterns) {
			files, err := filepath.Glob(filepath.Join(s.root, pkg, pattern))
			if err != nil || len(files) == 0 {
				return fmt.Errorf("%s embeds %s: %d files, %w", pkg, pattern, len(files), errors.Join(err, fs.ErrNotExist))
			}
			for _, file := range files {
				b, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				s.parts = append(s.parts, path.Join(pkg, filepath.Base(file))+" "+digest(b))
			}
		}
	}
	return nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// tokens is the digest of Go code without comments and formatting.
func tokens(text []byte) string {
	var b bytes.Buffer
	var s scanner.Scanner
	set := token.NewFileSet()
	s.Init(set.AddFile("", set.Base(), len(text)), text, nil, 0)
	for {
		_, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return digest(b.Bytes())
		case token.SEMICOLON: // written, or the end of a line
			literal = ";"
		}
		fmt.Fprintf(&b, "%v %s\n", kind, literal)
	}
}
