// SPDX-License-Identifier: Apache-2.0

package files

// This file reads files that people write. Its errors say what is wrong in words
// of the file, with the line; the library's name types and functions of Go.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// ErrEmpty is the error about a file that holds nothing but comments.
var ErrEmpty = errors.New("there is nothing in it")

// maxSize is larger than any file that a person writes.
const maxSize = 16 << 20

// YAMLDocument reads the one document of a file.
func YAMLDocument(r io.Reader) (*yaml.Node, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	switch {
	case errors.Is(err, unix.EISDIR):
		return nil, errors.New("is a directory: name a file")
	case err != nil:
		return nil, err
	case len(text) > maxSize:
		return nil, fmt.Errorf("is larger than %d MiB", maxSize>>20)
	case !utf8.Valid(text) || bytes.ContainsRune(text, 0):
		return nil, errors.New("is not text")
	}
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, ErrEmpty
		}
		return nil, plain(err)
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one document: remove all but one, and the lines with ---")
	}
	return doc.Content[0], nil
}

// DecodeYAML reads the one document of a file into v, a pointer to a struct. A key that the
// struct does not have is an error, and so is one that stands twice.
func DecodeYAML(r io.Reader, v any) error {
	doc, err := YAMLDocument(r)
	if err != nil {
		return err
	}
	if err := strict(doc, reflect.TypeOf(v)); err != nil {
		return err
	}
	return plain(doc.Decode(v))
}

var goType = regexp.MustCompile("cannot unmarshal !!\\w+ `([^`]*)` into (\\w+)")

// plain takes the library's wording of a wrong type out of an error.
func plain(err error) error {
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  ")
	return errors.New(goType.ReplaceAllStringFunc(text, func(m string) string {
		parts := goType.FindStringSubmatch(m)
		return fmt.Sprintf("%q is %s", parts[1], kindOf(parts[2]))
	}))
}

// kindOf says what a value is that a type of Go does not take.
func kindOf(goType string) string {
	switch goType {
	case "uint8":
		return fmt.Sprintf("no whole number from 0 to %d", math.MaxUint8)
	case "uint32":
		return fmt.Sprintf("no whole number from 0 to %d", uint32(math.MaxUint32))
	case "bool":
		return "neither true nor false"
	}
	if strings.Contains(goType, "int") {
		return "no whole number"
	}
	return "no value that belongs here"
}
