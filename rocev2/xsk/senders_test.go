// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSenders(t *testing.T) {
	sysfs := t.TempDir()
	for _, q := range []string{"rx-0", "rx-1", "rx-2", "tx-0", "tx-1"} {
		if err := os.MkdirAll(filepath.Join(sysfs, "eth0/queues", q), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(sysfs, "eth0/ifindex"), []byte("2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name             string
		index, has, want int
	}{
		{"eth0", 2, 3, 2}, // virtio_net with XDP
		{"eth0", 2, 1, 1},
		{"eth0", 7, 3, 3}, // sysfs shows the interface of this name of another namespace
		{"eth1", 3, 3, 3},
	} {
		if got := senders(sysfs, tc.name, tc.index, tc.has); got != tc.want {
			t.Errorf("%s (%d) with %d sockets: %d send, want %d", tc.name, tc.index, tc.has, got, tc.want)
		}
	}
}
