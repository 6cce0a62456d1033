// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"
)

// Every scenario of the library is valid and bears the name of its file.
func TestLibrary(t *testing.T) {
	for _, name := range Names() {
		s, err := Named(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if s.Name != name {
			t.Errorf("%s calls itself %s", name, s.Name)
		}
		if s.Title == "" || s.About == "" || len(s.Criteria) == 0 && s.Group == Control {
			t.Errorf("%s lacks a title, a description or criteria", name)
		}
	}
}
