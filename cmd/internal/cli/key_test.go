// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseKeys(t *testing.T) {
	for in, want := range map[string][]Key{
		"q": {"q"}, "\x1b": {KeyEscape}, "\x03": {KeyInterrupt}, "\x1b[A\x1bOBj": {KeyUp, KeyDown, "j"},
		"\x1b[5~\x1b[6~": {KeyPageUp, KeyPageDown}, "\x1b[200~": nil, "": nil,
	} {
		if diff := cmp.Diff(want, parseKeys(in)); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}
