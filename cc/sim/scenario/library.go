// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/softroce/softroce-xdp/internal/texts"
)

//go:embed library/*.yaml
var library embed.FS

// Names lists the library, in the order of the report: the files are numbered.
func Names() []string {
	entries, err := fs.ReadDir(library, "library")
	if err != nil {
		panic(err) // embedded
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		_, names[i], _ = strings.Cut(strings.TrimSuffix(e.Name(), ".yaml"), "-")
	}
	return names
}

// Source is the text of a scenario of the library.
func Source(name string) ([]byte, error) {
	matches, err := fs.Glob(library, path.Join("library", "[0-9][0-9]-*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, m := range matches {
		if _, n, _ := strings.Cut(strings.TrimSuffix(path.Base(m), ".yaml"), "-"); n == name {
			return library.ReadFile(m)
		}
	}
	if near := texts.Nearest(name, Names()); near != "" {
		return nil, fmt.Errorf("there is no scenario %q in the library: did you mean %s? `softroce-sim list` shows all", name, near)
	}
	return nil, fmt.Errorf("there is no scenario %q in the library: `softroce-sim list` shows all", name)
}

// Named reads a scenario of the library.
func Named(name string) (*Scenario, error) {
	text, err := Source(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, bytes.NewReader(text))
}

// Library reads all, in the order of Names.
func Library() ([]*Scenario, error) {
	var all []*Scenario
	for _, name := range Names() {
		s, err := Named(name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
