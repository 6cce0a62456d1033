// SPDX-License-Identifier: Apache-2.0

// Package nodefile reads the node file, in which an operator lists the machines of the network:
// number, addresses and location (S1.2), and priority (S4.5). Internal to this project.
//
// The agent numbers destinations by it (Numbers) and shares the link by its priorities.
// The file is read once, when the agent starts, and checked as a whole: Parse returns
// every mistake that it finds.
package nodefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"

	"github.com/softroce/softroce-xdp/internal/files"
)

// File is the content of a node file. The zero value lists no node.
type File struct {
	Nodes []Node `yaml:"nodes"`
}

// Node is one machine.
type Node struct {
	Number    uint32       `yaml:"number"` // number from 1, unique
	Addresses []netip.Addr `yaml:"addresses"`
	Location  string       `yaml:"location"`

	// Priority. Without any priority in the file, congestion control alone sets the rates.
	Level uint8 `yaml:"level"` // 1 (highest) to priority.Levels; 0 = not given, the lowest
	Min   Rate  `yaml:"min"`   // bits per second that are reserved for the node
	Max   Rate  `yaml:"max"`   // upper bound, bits per second; 0 = none

	// Criteria for the level where none is given (priority.Judge). Parse sets Level by them.
	Users      uint64 `yaml:"users"`      // number of users of the node
	Importance uint8  `yaml:"importance"` // importance of its data and applications, up to priority.MostImportant
}

// Read reads and checks the file at path.
func Read(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("node file: %w", err)
	}
	defer f.Close()
	return Parse(f, path)
}

// ReadAttached reads the node file of an attached interface, which may have been deleted since:
// the error then says what to do.
func ReadAttached(path, ifname string) (File, error) {
	f, err := Read(path)
	if _, unreadable := errors.AsType[*fs.PathError](err); unreadable {
		err = fmt.Errorf("%w: restore the file, or name another one: `softroce-xdp attach --upgrade --nodes FILE %s`", err, ifname)
	}
	return f, err
}

// Parse reads and checks a node file: a YAML list under the key nodes. Every error starts
// with the name of the file.
func Parse(r io.Reader, name string) (File, error) {
	var f File
	if err := files.DecodeYAML(r, &f); err != nil {
		return File{}, fmt.Errorf("node file %s: %w", name, err)
	}
	var errs []error
	for _, err := range f.mistakes() {
		errs = append(errs, fmt.Errorf("node file %s: %w", name, err))
	}
	return f, errors.Join(errs...)
}

// mistakes returns all that is wrong with the nodes.
func (f *File) mistakes() (errs []error) {
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	numbers, owners := map[uint32]bool{}, map[netip.Addr]uint32{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Number == 0 {
			wrong("a node without a number (they start at 1)")
		}
		if numbers[n.Number] {
			wrong("node %d stands twice", n.Number)
		}
		numbers[n.Number] = true
		if err := n.checkPriority(); err != nil {
			wrong("node %d: %w", n.Number, err)
		}
		n.judge()
		if len(n.Addresses) == 0 {
			wrong("node %d has no addresses", n.Number)
		}
		for _, a := range n.Addresses {
			if other, ok := owners[a.Unmap()]; ok {
				wrong("%s belongs to node %d and to node %d", a, other, n.Number)
			}
			owners[a.Unmap()] = n.Number
		}
	}
	return errs
}
