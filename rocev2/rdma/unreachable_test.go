// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The errors of the device server say what to do.
func TestServerError(t *testing.T) {
	dir := t.TempDir()
	without := filepath.Join(dir, "lo.json")
	for name, x := range map[string]struct {
		iface    string
		attached bool
		err      error
		is       error
		text     string
	}{
		"no interface":         {"nosuch0", false, syscall.ENOENT, ErrNotAttached, "no interface of this name"},
		"not attached":         {"lo", false, syscall.ENOENT, ErrNotAttached, "softroce-xdp attach lo --nic"},
		"attached without NIC": {"lo", true, syscall.ENOENT, ErrNoNIC, "softroce-xdp attach --upgrade --nic lo"},
		"permission":           {"lo", true, syscall.EACCES, fs.ErrPermission, "join the group of the socket"},
		"ended":                {"lo", true, syscall.ECONNREFUSED, syscall.ECONNREFUSED, "has ended"},
		"another error":        {"lo", true, syscall.EIO, syscall.EIO, "input/output error"},
	} {
		_ = os.Remove(without)
		if x.attached {
			if err := os.WriteFile(without, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := serverError(dir, x.iface, fmt.Errorf("connect: %w", x.err))
		if !errors.Is(err, x.is) || !errors.Is(err, x.err) || !strings.Contains(err.Error(), x.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Open without options uses the device server.
func TestOpenDefault(t *testing.T) {
	_, err := Open(t.Context(), "no-such-iface")
	if !errors.Is(err, ErrNotAttached) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no-such-iface.sock") {
		t.Error(err)
	}
}
