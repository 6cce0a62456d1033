// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Unit has the settings of section Service of a unit file. A setting that occurs several times has several values.
type Unit map[string][]string

// Read reads a unit file.
func Read(path string) (Unit, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	u, section := Unit{}, ""
	for n, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case line[0] == '[':
			section = line
			continue
		case strings.HasSuffix(line, `\`):
			return nil, fmt.Errorf("%s:%d: a line that goes on is not supported: write the setting again", path, n+1)
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("%s:%d: %q is no setting", path, n+1, line)
		}
		if section == "[Service]" {
			u[name] = append(u[name], value)
		}
	}
	return u, nil
}

// Words returns the words of all values of a setting.
func (u Unit) Words(name string) []string { return strings.Fields(strings.Join(u[name], " ")) }

// Yes reports whether a setting is switched on.
func (u Unit) Yes(name string) bool {
	v := u[name]
	return len(v) > 0 && slices.Contains([]string{"yes", "true", "on", "1"}, v[len(v)-1])
}

// Is reports whether a setting has a value.
func (u Unit) Is(name, value string) bool { return slices.Equal(u[name], []string{value}) }
