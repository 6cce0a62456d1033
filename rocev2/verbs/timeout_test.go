// SPDX-License-Identifier: Apache-2.0

package verbs_test

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// By default a connection outlives a pause of its peer of 3 s, with as much in reserve, and a peer that is gone is
// reported before the 10 s for which ping waits for a round trip.
func TestDefaultRetryBound(t *testing.T) {
	a := verbs.DefaultAttr()
	if d := time.Duration(qp.RetryBound(a.Timeout, a.RetryCnt)); d < 6*time.Second || d > 9*time.Second {
		t.Errorf("a silent peer is given up after %v, want 6 to 9 s", d)
	}
}
