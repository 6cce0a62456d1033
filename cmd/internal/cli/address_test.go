// SPDX-License-Identifier: Apache-2.0

package cli

import "testing"

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"host": "host:18516", "host:1": "host:1", "10.0.0.1": "10.0.0.1:18516", "fe80::1%eth0": "[fe80::1%eth0]:18516",
		"[fe80::1%eth0]": "[fe80::1%eth0]:18516", "[::1]:7": "[::1]:7",
	} {
		if got, err := ParseAddress(in, 18516); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "host:", "host:0", "host:65536", "host:http", ":-1"} {
		if got, err := ParseAddress(in, 18516); err == nil {
			t.Errorf("%q is taken for %s", in, got)
		}
	}
}
