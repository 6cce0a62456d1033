// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"
)

// SetAnswerTime sets how long a member has to answer, until the test ends.
func SetAnswerTime(t testing.TB, d time.Duration) {
	before := answerTime
	answerTime = d
	t.Cleanup(func() { answerTime = before })
}
