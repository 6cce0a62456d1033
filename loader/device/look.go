// SPDX-License-Identifier: Apache-2.0

package device

import "time"

// lookTime is the time between two looks.
const lookTime = 100 * time.Millisecond

// looked waits until done is closed, for n looks. They are counted: a machine that stood still for that time has not looked.
func looked(done <-chan struct{}, n int) bool {
	t := time.NewTicker(lookTime)
	defer t.Stop()
	for range n {
		select {
		case <-done:
			return true
		case <-t.C:
		}
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}
