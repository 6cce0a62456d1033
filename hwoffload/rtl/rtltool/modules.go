// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// packageSuffix ends the names of files with a package; all others have a module of the name
// of the file.
const packageSuffix = "_pkg"

// moduleSet is the sources of a folder. It tells which module refers to which others, and makes a
// fingerprint of what decides the circuit of a module.
type moduleSet struct {
	dir  string
	code map[string]string // source without comments, by module or package
}

var comment = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)

// readModules reads all files of a folder that end in .sv.
func readModules(dir string) (*moduleSet, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.sv"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no *.sv: name the folder hwoffload/rtl", dir)
	}
	s := &moduleSet{dir: dir, code: map[string]string{}}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(path), ".sv")
		s.code[name] = strings.Join(strings.Fields(comment.ReplaceAllString(string(text), " ")), " ")
		if kind := map[bool]string{false: "module", true: "package"}[isPackage(name)]; !word(kind + " " + name).MatchString(s.code[name]) {
			return nil, fmt.Errorf("%s has no %s %s: a file has one module, with the name of the file", path, kind, name)
		}
	}
	return s, nil
}

func isPackage(name string) bool { return strings.HasSuffix(name, packageSuffix) }

func word(name string) *regexp.Regexp { return regexp.MustCompile(`\b` + name + `\b`) }

// modules returns the names of all modules.
func (s *moduleSet) modules() (names []string) {
	for name := range s.code {
		if !isPackage(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// parts returns a module, and the modules and packages that it refers to, directly or not.
func (s *moduleSet) parts(module string) []string {
	all := []string{module}
	for i := 0; i < len(all); i++ {
		for name := range s.code {
			if !slices.Contains(all, name) && word(name).MatchString(s.code[all[i]]) {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return all
}

// files returns the files of a module and of what it refers to. Packages come first.
func (s *moduleSet) files(module string) (files []string) {
	for _, packages := range []bool{true, false} {
		for _, name := range s.parts(module) {
			if isPackage(name) == packages {
				files = append(files, filepath.Join(s.dir, name+".sv"))
			}
		}
	}
	return files
}

// fingerprint identifies the circuit of a module: the code of the module and of those that it
// refers to, and the constants that they use of packages. Comments and formatting do not
// count, and neither do constants that no one of them uses.
func (s *moduleSet) fingerprint(module string) string {
	h := sha256.New()
	for _, name := range s.parts(module) {
		if isPackage(name) {
			continue
		}
		fmt.Fprintf(h, "%s\n", s.code[name])
		for _, use := range regexp.MustCompile(`\b(\w+)::(\w+)`).FindAllStringSubmatch(s.code[name], -1) {
			definition := regexp.MustCompile(`localparam [^;=]*\b` + use[2] + ` = [^;]*;`)
			fmt.Fprintf(h, "%s\n", definition.FindString(s.code[use[1]]))
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
