// SPDX-License-Identifier: Apache-2.0

package attach

import "testing"

// A group keeps its value through the text of its flag, also that of root, whose number is 0.
func TestGroupVar(t *testing.T) {
	for text, want := range map[string]string{"root": "0", "0": "0", "4711": "4711"} {
		var a, b *int
		if err := (groupVar{&a}).Set(text); err != nil {
			t.Fatal(err)
		}
		if got := (groupVar{&a}).String(); got != want {
			t.Errorf("%s is shown as %q, want %q", text, got, want)
		}
		if err := (groupVar{&b}).Set((groupVar{&a}).String()); err != nil || b == nil || *b != *a {
			t.Errorf("%s: %v", text, err)
		}
	}
	var none *int
	if got := (groupVar{&none}).String(); got != "" {
		t.Errorf("no group is shown as %q", got)
	}
}
