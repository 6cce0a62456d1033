// SPDX-License-Identifier: Apache-2.0

package xsk

const poison = 0xDB

func poisonFrame(b []byte) {
	for i := range b {
		b[i] = poison
	}
}

// isPoisoned reports whether nobody wrote to a poisoned frame.
func isPoisoned(b []byte) bool {
	for _, c := range b {
		if c != poison {
			return false
		}
	}
	return true
}
