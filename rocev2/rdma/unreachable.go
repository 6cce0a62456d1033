// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Reasons why there is no device server for an interface.
var (
	ErrNotAttached = errors.New("the interface is not attached")
	ErrNoNIC       = errors.New("the interface is attached without a NIC")
)

// runDir is where the agent has its socket and its state file. Package loader writes both.
const runDir = "/run/softroce-xdp"

// serverError adds to the error of the driver "server" what to do about it. The driver passes on
// what its connect to the socket returned.
func serverError(dir, name string, err error) error {
	base := filepath.Join(dir, strings.NewReplacer("%", "%25", ".", "%2E").Replace(name))
	socket := base + ".sock"
	fail := func(format string, args ...any) error {
		return fmt.Errorf("rdma: open %s: %w", name, fmt.Errorf(format, args...))
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fail("no permission to use %s: join the group of the socket (`ls -l %s`), or attach with another group or mode: %w", socket, socket, err)
	case errors.Is(err, fs.ErrNotExist):
		if _, missing := net.InterfaceByName(name); missing != nil {
			return fail("%w, and there is no interface of this name in this network namespace (`ip link`): %w", ErrNotAttached, err)
		}
		if _, missing := os.Stat(base + ".json"); missing != nil {
			return fail("%w: run `softroce-xdp attach %s --nic`: %w", ErrNotAttached, name, err)
		}
		return fail("%w: run `softroce-xdp attach --upgrade --nic %s`: %w", ErrNoNIC, name, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fail("the agent that served %s has ended: run `softroce-xdp attach %s --nic` again: %w", socket, name, err)
	}
	return err
}
