// SPDX-License-Identifier: Apache-2.0

package card

import (
	"os"
	"path/filepath"
	"testing"
)

// Names of one card lead to the same files of the run directory, and those of two cards do not.
func TestParseCard(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	device := filepath.Join(dir, "pci0000:00", "0000:03:00.0")
	if err := os.MkdirAll(device, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(device, "resource0"), "bar"} {
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"alias": "bar", "device": device} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]int{}
	for i, same := range [][]string{
		{"0000:03:00.0", "03:00.0", "device/resource0", filepath.Join(device, "resource0")},
		{"0000:03:00.1", "03:00.1"},
		{"./bar", "alias/../bar", "./alias", filepath.Join(dir, "bar")},
		{"unix:bar", "unix:./bar", "unix:" + filepath.Join(dir, "bar")},
		{"unix:none", "unix:./none"},
		{"./none"},
	} {
		first, err := parseCard(same[0])
		if err != nil {
			t.Fatal(err)
		}
		if j, ok := files[first.file]; ok {
			t.Errorf("cards %d and %d have the same files", i, j)
		}
		files[first.file] = i
		for _, name := range same {
			id, err := parseCard(name)
			if err != nil || id.file != first.file || id.full() != first.full() || id.name != name {
				t.Errorf("%s: %+v, %v; want %+v", name, id, err, first)
			}
			if again, err := parseCard(id.full()); err != nil || again.file != id.file {
				t.Errorf("%s: its full name %s is another card: %+v, %v", name, id.full(), again, err)
			}
		}
	}
	for _, name := range []string{"", "eth0", "unix:", "bar", "0000:03:00"} {
		if id, err := parseCard(name); err == nil {
			t.Errorf("%q: %+v", name, id)
		}
	}
}
