// SPDX-License-Identifier: Apache-2.0

package nodefile

import (
	"strings"
	"testing"
)

func TestBadPriorities(t *testing.T) {
	for text, want := range map[string]string{
		"level: 9":            "node 1: level 9: levels are 1 (the highest) to 8",
		"min: 20M, max: 10M":  "node 1: min 20Mbit/s is above max 10Mbit/s",
		"level: 1, users: 5":  "node 1: level, and users or importance, which give a level: remove one of them",
		"importance: 5":       "node 1: importance 5: it is at most 4",
		"users: -1":           `"-1" is no whole number`,
		"min: fast":           `line 1: "fast" is no rate: write bits per second, for example 100M`,
		"max: [1]":            `is no rate`,
		"level: -1":           `"-1" is no whole number from 0 to 255`,
		"minimum: 20M":        `there is no key "minimum": choose number`,
		"level: highest":      `"highest" is no whole number from 0 to 255`,
		"min: 0.1":            `"0.1" is no rate`,
		"level: 1, min: 200T": `"200T" is no rate`,
	} {
		_, err := Parse(strings.NewReader("nodes: [{number: 1, addresses: [10.0.0.1], "+text+"}]"), "nodes.yaml")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A node without a level has the one of its users and its importance.
func TestJudgedLevel(t *testing.T) {
	for text, want := range map[string]uint8{"": 0, ", level: 2": 2, ", users: 5": 8, ", users: 5000": 5, ", importance: 4": 4, ", users: 200, importance: 3": 3} {
		f := parse(t, "nodes: [{number: 1, addresses: [10.0.0.1]"+text+"}]")
		if got := f.Nodes[0].Level; got != want {
			t.Errorf("%q: level %d, want %d", text, got, want)
		}
	}
}

func TestPrioritized(t *testing.T) {
	for text, want := range map[string]bool{
		"":               false,
		", level: 8":     true,
		", min: 1M":      true,
		", max: 1M":      true,
		", location: L1": false,
	} {
		f := parse(t, "nodes: [{number: 1, addresses: [10.0.0.1]"+text+"}]")
		if f.Prioritized() != want {
			t.Errorf("%q: Prioritized is %t", text, !want)
		}
		if (f.Sharer() != nil) != want {
			t.Errorf("%q: a Sharer: %t", text, !want)
		}
	}
}

func TestSharerWithoutFile(t *testing.T) {
	if (*File)(nil).Sharer() != nil {
		t.Error("no node file has priorities")
	}
}

func TestCheckMinimums(t *testing.T) {
	f := parse(t, `
nodes:
  - {number: 1, addresses: [10.0.0.1], level: 1, min: 10M, max: 60M}
  - {number: 2, addresses: [10.0.0.2, "fd00::2"], level: 2, min: 10M, max: 50M}
  - {number: 3, addresses: [10.0.0.3], level: 3, min: 5M}
`)
	if err := f.CheckMinimums(0, 25e6); err != nil {
		t.Error(err)
	}
	if err := f.CheckMinimums(0, 24e6); err == nil || !strings.Contains(err.Error(), "25Mbit/s together, and there are 24Mbit/s to share") {
		t.Error(err)
	}
	if err := f.CheckMinimums(3, 20e6); err != nil {
		t.Errorf("this node needs no bandwidth to itself: %v", err)
	}
}
