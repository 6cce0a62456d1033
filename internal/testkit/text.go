// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"encoding/hex"
	"strings"
	"testing"
)

// Unhex returns the bytes of a text of hexadecimal digits with white space between them.
func Unhex(t testing.TB, text string) []byte {
	t.Helper()
	return Must1(hex.DecodeString(strings.Join(strings.Fields(text), "")))(t)
}
