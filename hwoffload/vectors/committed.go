// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed testdata/*.vec
var committed embed.FS

var notName = regexp.MustCompile(`[^a-z0-9]+`)

// FileName is the name of a vector's file in testdata.
func (v *Vector) FileName() string {
	return strings.Trim(notName.ReplaceAllString(strings.ToLower(v.Name), "-"), "-") + ".vec"
}

// Committed reads the vector files in testdata, which have the vectors of All.
func Committed() (all []*File, err error) {
	list, err := committed.ReadDir("testdata")
	if err != nil {
		return nil, err
	}
	for _, entry := range list {
		in, err := committed.Open("testdata/" + entry.Name())
		if err != nil {
			return nil, err
		}
		f, err := Read(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		all = append(all, f)
	}
	return all, nil
}
