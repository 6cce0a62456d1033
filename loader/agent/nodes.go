// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/softroce/softroce-xdp/internal/yamlfile"
)

// Node is one line of the node file (S1.2): the other machines, numbered by
// where they stand.
type Node struct {
	Number    uint32       `yaml:"number"`
	Addresses []netip.Addr `yaml:"addresses"`
	Location  string       `yaml:"location"`

	// Priority (S4.5). A file that gives none of them for any node leaves all rates
	// to congestion control.
	Level uint8 `yaml:"level"` // 1 is the highest; 0 = not given, the lowest
	Min   Rate  `yaml:"min"`   // is reserved for it, bits per second
	Max   Rate  `yaml:"max"`   // it never gets more; 0 = no bound
}

// nodes numbers destinations: as the node file says, the others behind those in
// order of first contact.
type nodes struct {
	list   []Node
	byAddr map[netip.Addr]uint32 // of the list; the others' are in the table only
	next   uint32
}

func readNodes(path string) (*nodes, error) {
	n := &nodes{byAddr: map[netip.Addr]uint32{}, next: 1}
	if path == "" {
		return n, nil
	}
	list, err := ReadNodeFile(path)
	if err != nil {
		return nil, err
	}
	n.list = list
	for _, x := range list {
		for _, a := range x.Addresses {
			n.byAddr[a.Unmap()] = x.Number
		}
		n.next = max(n.next, x.Number+1)
	}
	return n, nil
}

// ReadNodeFile reads and checks a node file: a YAML list under `nodes:` of
// number, addresses, location, level, min and max.
func ReadNodeFile(path string) ([]Node, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("node file: %w", err)
	}
	defer f.Close()
	var file struct {
		Nodes []Node `yaml:"nodes"`
	}
	if err := yamlfile.Decode(f, &file); err != nil {
		return nil, fmt.Errorf("node file %s: %w", path, err)
	}
	numbers, addrs := map[uint32]bool{}, map[netip.Addr]uint32{}
	var errs []error
	for _, n := range file.Nodes {
		if n.Number == 0 {
			errs = append(errs, fmt.Errorf("node file %s: a node without a number (they start at 1)", path))
		}
		if numbers[n.Number] {
			errs = append(errs, fmt.Errorf("node file %s: node %d stands twice", path, n.Number))
		}
		numbers[n.Number] = true
		if err := n.checkPriority(); err != nil {
			errs = append(errs, fmt.Errorf("node file %s: node %d: %w", path, n.Number, err))
		}
		if len(n.Addresses) == 0 {
			errs = append(errs, fmt.Errorf("node file %s: node %d has no addresses", path, n.Number))
		}
		for _, a := range n.Addresses {
			if other, ok := addrs[a.Unmap()]; ok {
				errs = append(errs, fmt.Errorf("node file %s: %s belongs to node %d and to node %d", path, a, other, n.Number))
			}
			addrs[a.Unmap()] = n.Number
		}
	}
	return file.Nodes, errors.Join(errs...)
}

// number returns the node number of an address that is new in the table.
func (n *nodes) number(a netip.Addr) uint32 {
	if x, ok := n.byAddr[a.Unmap()]; ok {
		return x
	}
	n.next++
	return n.next - 1
}

// seen takes note of a number that an earlier agent gave. None is given twice.
func (n *nodes) seen(number uint32) { n.next = max(n.next, number+1) }

// permanent reports whether the node file names the address.
func (n *nodes) permanent(a netip.Addr) bool { return n.byAddr[a.Unmap()] != 0 }
