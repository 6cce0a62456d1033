// SPDX-License-Identifier: Apache-2.0

package nic

import "time"

// SetCreditHold changes how long first data waits for a grant, before devices are opened.
func SetCreditHold(d time.Duration) (restore func()) {
	old := creditHold
	creditHold = d
	return func() { creditHold = old }
}
