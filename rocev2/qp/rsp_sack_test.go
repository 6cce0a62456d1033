// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"encoding/hex"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// SACK bytes from BTH to bitmap.
func TestSACKBytes(t *testing.T) {
	x := newTarget(t, verbs.RC, selective)
	x.put(1, false)
	x.put(127, false)
	x.out()
	const want = "c4 00 ffff 00 000022 00 fffffd  1f 000000  8000000000000000 0000000000000002"
	if got := hex.EncodeToString(x.frame[28:60]); got != clean(want) {
		t.Errorf("SACK:\n got %s\nwant %s", got, clean(want))
	}
}
