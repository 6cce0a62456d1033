// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
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
	var doc, more yaml.Node
	d := yaml.NewDecoder(r)
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("there is nothing in it")
		}
		return nil, plain(err)
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one document: a file is one scenario")
	}
	var s Scenario
	if err := strict(doc.Content[0], reflect.TypeFor[Scenario]()); err != nil {
		return nil, err
	}
	if err := doc.Decode(&s); err != nil {
		return nil, plain(err)
	}
	s.defaults()
	return &s, s.validate()
}

var goType = regexp.MustCompile("cannot unmarshal !!\\w+ `([^`]*)` into (\\w+)")

// plain takes the library's wording of a wrong type out of an error, which names
// types of Go.
func plain(err error) error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  ")
	return errors.New(goType.ReplaceAllStringFunc(text, func(m string) string {
		parts := goType.FindStringSubmatch(m)
		what := "value that belongs here"
		switch {
		case strings.Contains(parts[2], "int"):
			what = "whole number"
		case parts[2] == "bool":
			what = "true or false"
		}
		return fmt.Sprintf("%q is no %s", parts[1], what)
	}))
}
