// SPDX-License-Identifier: Apache-2.0

package nodefile

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func parse(t *testing.T, text string) File {
	t.Helper()
	f, err := Parse(strings.NewReader(text), "nodes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"nodes: [{addresses: [10.0.0.1]}]":                                                         "without a number",
		"nodes: [{number: 1, addresses: [10.0.0.1]}, {number: 1, addresses: [10.0.0.2]}]":          "node 1 stands twice",
		"nodes: [{number: 1}]":                                                                     "node 1 has no addresses",
		"nodes: [{number: 1, addresses: [10.0.0.1]}, {number: 2, addresses: ['::ffff:10.0.0.1']}]": "belongs to node 1 and to node 2",
		"nodes: [{number: 1, addresses: [ten]}]":                                                   "ten",
		"nodes: [{number: 1, adresses: [10.0.0.1]}]":                                               "adresses",
		"nodes: [{number: -1, addresses: [10.0.0.1]}]":                                             "-1",
	} {
		if _, err := Parse(strings.NewReader(text), "nodes.yaml"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Each error of a file names it, and a missing file can be told from a bad one.
func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nodes.yaml")
	if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{
		"nodes: [{number: 1, addresses: [10.0.0.1], location: rack 2}]": "",
		"nodes: [{number: 1}, {number: 2}]":                             "node file PATH: node 1 has no addresses\nnode file PATH: node 2 has no addresses",
		"- 1":                                                           "node file PATH: line 1: expected keys with values: nodes",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := Read(path)
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), path, "PATH")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if want == "" && (len(f.Nodes) != 1 || f.Nodes[0].Location != "rack 2") {
			t.Errorf("%s: %+v", text, f)
		}
	}
}

// S1.2: nodes have the numbers of the file; others follow in order of first contact.
func TestNumbers(t *testing.T) {
	f := parse(t, `
nodes:
  - {number: 4, addresses: [10.0.0.4, "fd00::4"], location: rack 2}
  - {number: 2, addresses: [10.0.0.2], location: rack 1}
`)
	n := f.Numbers()
	for _, c := range []struct {
		addr string
		want uint32
	}{{"10.0.0.4", 4}, {"fd00::4", 4}, {"::ffff:10.0.0.2", 2}, {"10.0.0.9", 5}, {"10.0.0.8", 6}, {"10.0.0.7", 7}} {
		if got := n.Assign(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s is node %d, want %d", c.addr, got, c.want)
		}
	}
	if !n.Listed(netip.MustParseAddr("10.0.0.4")) || n.Listed(netip.MustParseAddr("10.0.0.9")) {
		t.Error("the addresses of the file, and only those, are listed")
	}
}

// A number that an earlier agent assigned is not assigned again.
func TestNumbersAfterRestart(t *testing.T) {
	n := new(File).Numbers()
	n.Used(3)
	n.Used(0)
	if a, b := n.Assign(netip.MustParseAddr("10.0.0.1")), n.Assign(netip.MustParseAddr("10.0.0.2")); a != 4 || b != 5 {
		t.Errorf("%d, %d, want 4, 5", a, b)
	}
}
