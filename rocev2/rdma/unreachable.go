// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
)

// Reasons why there is no device server for an interface.
var (
	ErrNotAttached = errors.New("the interface is not attached")
	ErrNoNIC       = errors.New("the interface is attached without a NIC")
	ErrNotServing  = errors.New("the agent of the interface does not serve its NIC now")
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
	attach := "softroce-xdp attach"
	if dir != runDir {
		attach = "softroce-xdp --run-dir " + dir + " attach"
	}
	attached, withNIC := readState(base + ".json")
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fail("no permission to use %s: join the group of the socket (`ls -l %s`), or attach with another group or mode: %w", socket, socket, err)
	case errors.Is(err, fs.ErrNotExist) && withNIC:
		return fail("%w: during an upgrade, try again in a second; otherwise see %s.log, and run `%s --upgrade %s`: %w", ErrNotServing, base, attach, name, err)
	case errors.Is(err, fs.ErrNotExist) && attached:
		return fail("%w: run `%s --upgrade --nic %s`: %w", ErrNoNIC, attach, name, err)
	case errors.Is(err, fs.ErrNotExist):
		if _, missing := net.InterfaceByName(name); missing != nil {
			return fail("%w, and there is no interface of this name in this network namespace (`ip link`); in a container, %s must be that of the host: %w", ErrNotAttached, dir, err)
		}
		return fail("%w: run `%s %s --nic`: %w", ErrNotAttached, attach, name, err)
	case errors.Is(err, client.ErrNoAnswer):
		return fail("%w: the agent that has %s was stopped or is stuck: see %s.log, and run `%s --upgrade %s`: %w", ErrNotServing, socket, base, attach, name, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fail("%w: the agent that served %s has ended: run `%s %s --nic` again: %w", ErrNotServing, socket, attach, name, err)
	}
	return err
}

// readState reads the state file of an attachment: whether there is one, and whether its agent is to serve
// a NIC.
func readState(path string) (attached, withNIC bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return false, false
	}
	var state struct {
		NIC *struct{} `json:"nic"`
	}
	return true, json.Unmarshal(b, &state) == nil && state.NIC != nil
}
