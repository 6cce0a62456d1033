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

	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
)

// The errors of the device server say what to do.
func TestServerError(t *testing.T) {
	dir := t.TempDir()
	for name, x := range map[string]struct {
		iface    string
		attached string // state of the attached interface
		err      error
		is       error
		text     string
	}{
		"no interface":         {"nosuch0", "", syscall.ENOENT, ErrNotAttached, "no interface of this name"},
		"not attached":         {"lo", "", syscall.ENOENT, ErrNotAttached, "attach lo --nic"},
		"attached without NIC": {"lo", "{}", syscall.ENOENT, ErrNoNIC, "softroce-xdp --run-dir " + dir + " attach --upgrade --nic lo"},
		"in a container":       {"nosuch0", "{}", syscall.ENOENT, ErrNoNIC, "attach --upgrade --nic nosuch0"},
		"being upgraded":       {"lo", `{"nic": {"mode": 384}}`, syscall.ENOENT, ErrNotServing, "try again in a second"},
		"permission":           {"lo", "{}", syscall.EACCES, fs.ErrPermission, "join the group of the socket"},
		"ended":                {"lo", "{}", syscall.ECONNREFUSED, ErrNotServing, "has ended"},
		"no answer":            {"lo", "{}", client.ErrNoAnswer, ErrNotServing, "attach --upgrade lo"},
		"no answer, as Close":  {"lo", "{}", client.ErrNoAnswer, ErrNoAnswer, "attach --upgrade lo"},
		"another error":        {"lo", "{}", syscall.EIO, syscall.EIO, "input/output error"},
	} {
		state := filepath.Join(dir, x.iface+".json")
		_ = os.Remove(state)
		if x.attached != "" {
			if err := os.WriteFile(state, []byte(x.attached), 0o600); err != nil {
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
