// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"

	"github.com/softroce/softroce-xdp/loader/device/limits"
)

// The status of a process has every kind that a process has a limit of, each in a place of its own.
func TestStatusKinds(t *testing.T) {
	var p Process
	seen := map[*uint64]limits.Kind{}
	for _, k := range limits.Kinds() {
		at := p.of(k)
		if k == limits.Processes || k == limits.Calls { // of users only; a rate
			continue
		}
		if at == nil {
			t.Errorf("the status has no %s", k)
		} else if other, taken := seen[at]; taken {
			t.Errorf("%s and %s are one", k, other)
		}
		seen[at] = k
	}
}
