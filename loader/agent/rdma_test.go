// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRDMADevice(t *testing.T) {
	root := t.TempDir()
	if got := rdmaDevice(filepath.Join(root, "none"), "eth0"); got != "" {
		t.Errorf("%q where the kernel has no RDMA", got)
	}
	for file, text := range map[string]string{
		"mlx5_0/ports/1/gid_attrs/ndevs/0": "eth10\n",
		"rxe0/ports/1/gid_attrs/ndevs/0":   "eth0\n",
		"rxe0/ports/1/gid_attrs/ndevs/1":   "eth0.7\n",
	} {
		file = filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for ifname, want := range map[string]string{"eth0": "rxe0", "eth10": "mlx5_0", "eth0.7": "rxe0", "eth1": ""} {
		if got := rdmaDevice(root, ifname); got != want {
			t.Errorf("%s: %q, want %q", ifname, got, want)
		}
	}
}
