// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"io"
	"os"

	"github.com/softroce/softroce-xdp/internal/files"
)

// Read reads one scenario from a file.
func Read(path string) (*Scenario, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Parse(path, f)
}

// Parse reads one scenario; path stands in errors. What it returns is complete
// and valid: defaults are filled in.
func Parse(path string, r io.Reader) (*Scenario, error) {
	s, err := parse(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func parse(r io.Reader) (*Scenario, error) {
	var s Scenario
	if err := files.DecodeYAML(r, &s); err != nil {
		return nil, err
	}
	s.defaults()
	return &s, s.validate()
}
