// SPDX-License-Identifier: Apache-2.0

//go:build long

package clib

import "testing"

func init() {
	if sanitizer() != "" { // programs are several times as slow
		return
	}
	long = true
	amounts = map[string]int{"CYCLES": 100_000, "QUEUES": 1000, "COMPLETIONS": 1_000_000, "KILLED": 500, "ORDERS": 1000, "CONNECTIONS": 1000}
}

// All tests of the library find nothing with sanitizers. Debian's programs load the runtime first.
func TestAllWithSanitizers(t *testing.T) {
	sanitized(t, "^(TestClients|TestWrongReplies|TestPrograms)$", "TestClients", "TestWrongReplies", "TestPrograms")
}
