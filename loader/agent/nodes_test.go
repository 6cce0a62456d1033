// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func nodeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nodes.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// S1.2: nodes have the numbers of the file; others come behind them, in order of
// first contact.
func TestNodeNumbers(t *testing.T) {
	n, err := readNodes(nodeFile(t, `
nodes:
  - {number: 4, addresses: [10.0.0.4, "fd00::4"], location: rack 2}
  - {number: 2, addresses: [10.0.0.2], location: rack 1}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		peer byte
		want uint32
	}{{4, 4}, {2, 2}, {9, 5}, {8, 6}, {9, 5}} {
		if got := n.number(peerN(c.peer)); got != c.want {
			t.Errorf("10.0.0.%d is node %d, want %d", c.peer, got, c.want)
		}
	}
	if !n.permanent(peerN(4)) || n.permanent(peerN(9)) {
		t.Error("the file's nodes, and only those, are permanent")
	}
	n.forget(peerN(9))
	if got := n.number(peerN(9)); got != 7 {
		t.Errorf("a number was used again: %d", got)
	}
}

// Numbers that an earlier agent gave stay.
func TestNodeNumbersAfterRestart(t *testing.T) {
	n, err := readNodes("")
	if err != nil {
		t.Fatal(err)
	}
	n.seen(peerN(1), 3)
	n.seen(peerN(2), 0)
	if a, b := n.number(peerN(1)), n.number(peerN(2)); a != 3 || b != 4 {
		t.Errorf("%d, %d, want 3, 4", a, b)
	}
}

func TestBadNodeFiles(t *testing.T) {
	for text, want := range map[string]string{
		"nodes: [{addresses: [10.0.0.1]}]":                                                         "without a number",
		"nodes: [{number: 1, addresses: [10.0.0.1]}, {number: 1, addresses: [10.0.0.2]}]":          "node 1 stands twice",
		"nodes: [{number: 1}]":                                                                     "node 1 has no addresses",
		"nodes: [{number: 1, addresses: [10.0.0.1]}, {number: 2, addresses: ['::ffff:10.0.0.1']}]": "belongs to node 1 and to node 2",
		"nodes: [{number: 1, addresses: [ten]}]":                                                   "ten",
		"nodes: [{number: 1, adresses: [10.0.0.1]}]":                                               "adresses",
		"nodes: [{number: -1, addresses: [10.0.0.1]}]":                                             "-1",
	} {
		_, err := ReadNodeFile(nodeFile(t, text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadNodeFile("/nonexistent/nodes.yaml"); err == nil {
		t.Error("a file that is not there")
	}
}
