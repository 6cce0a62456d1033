// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/loader/pacer"
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

// failingPacer is a pacer whose first calls of Prepare fail.
type failingPacer struct {
	pacer.Pacer
	failures, calls int
}

func (p *failingPacer) Prepare() error {
	if p.calls++; p.calls <= p.failures {
		return errors.New("no root qdisc")
	}
	return nil
}

// A pacer that could not be prepared is prepared later. The attempts do not fill the log.
func TestPrepareIsRepeated(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "rxe0/ports/1/gid_attrs/ndevs/0")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("eth0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	pacer := &failingPacer{failures: 2}
	a := bare()
	a.iface.Name, a.pacer = "eth0", pacer
	for tick := range 2000 {
		a.expectRDMA(root, 1000*second+uint64(tick)*uint64(10*time.Millisecond))
	}
	if pacer.calls != 3 || a.rdma != "rxe0" {
		t.Errorf("%d attempts in 20 s, the pacer is ready for %q; want 3 and rxe0", pacer.calls, a.rdma)
	}
}
