// SPDX-License-Identifier: Apache-2.0

package pacer_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader/pacer"
)

// The data plane knows all pacers that there are.
func TestKindNumbers(t *testing.T) {
	seen := map[uint32]pacer.Kind{}
	for _, k := range pacer.Kinds {
		if other, twice := seen[k.Number()]; twice {
			t.Errorf("%s and %s have number %d", other, k, k.Number())
		}
		seen[k.Number()] = k
	}
	if len(seen) != 4 || seen[bpf.PacerNone] != pacer.None || seen[bpf.PacerHTB] != pacer.HTB {
		t.Errorf("%v", seen)
	}
}
