// SPDX-License-Identifier: Apache-2.0

package require

// This file is for what a test finds out that depends on how fast the machine is: a
// throughput that is reached, a share of a link that is used, a delay that is kept. CI
// measures and logs it, but does not judge it, because others may use the machine. With
// the build tag timing (`make test-timing`, on a machine that is otherwise idle) it is
// judged: what is missed fails the test.
//
// What must hold on every machine is no business of this file: data arrives, limits
// are not exceeded, counters agree.

import "testing"

// Missed reports that a figure is not as it should be.
func Missed(t testing.TB, format string, args ...any) {
	t.Helper()
	if Judged {
		t.Errorf(format, args...)
		return
	}
	t.Logf("not judged here: "+format, args...)
}

// Tries is how often to measure before a figure counts as missed: n times where it is
// judged, for a machine that stalls now and then, and once where it is not.
func Tries(n int) int {
	if Judged {
		return n
	}
	return 1
}
