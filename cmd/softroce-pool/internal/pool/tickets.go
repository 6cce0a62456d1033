// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"github.com/softroce/softroce-xdp/internal/files"
	"github.com/softroce/softroce-xdp/mempool/node"
)

// ticketDir is a directory of tickets of the nodes of a user, so that `softroce-pool leave` can end what a node leases
// that another process has made (docs/run/memory-pool.md). Only its user may read it.
type ticketDir string

// errNoTicket: there is no ticket of a node for a server.
var errNoTicket = errors.New("no ticket is stored")

// defaultTicketDir returns the directory of this user: below runDir for root, and otherwise where other programs of the user
// have what lasts until the host restarts.
func defaultTicketDir(runDir string) (ticketDir, error) {
	if os.Geteuid() == 0 {
		return ticketDir(filepath.Join(runDir, "tickets")), nil
	}
	base := os.Getenv("XDG_RUNTIME_DIR")
	if base == "" {
		var err error
		if base, err = os.UserCacheDir(); err != nil {
			return "", fmt.Errorf("there is no directory for tickets: %w", err)
		}
	}
	return ticketDir(filepath.Join(base, "softroce-xdp", "tickets")), nil
}

// path returns the file of a node. Each character of the name has one form in it, so names do not meet.
func (d ticketDir) path(server net.Addr, name string) string {
	return filepath.Join(string(d), url.PathEscape(name)+"@"+server.String())
}

// Keep stores the ticket of a node for the server at an address.
func (d ticketDir) Keep(server net.Addr, name string, t node.Ticket) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return files.WriteState(d.path(server, name), append(b, '\n'))
}

// Find returns the ticket of a node, or ErrNone.
func (d ticketDir) Find(server net.Addr, name string) (t node.Ticket, err error) {
	b, err := os.ReadFile(d.path(server, name))
	if errors.Is(err, fs.ErrNotExist) {
		return t, fmt.Errorf("node %s at %s: %w in %s: the user who has run `softroce-pool join` on this host can end its lease", name, server, errNoTicket, d)
	}
	if err == nil {
		if err = json.Unmarshal(b, &t); err != nil {
			err = fmt.Errorf("ticket %s: %w", d.path(server, name), err)
		}
	}
	return t, err
}

// Forget removes the ticket of a node that has left.
func (d ticketDir) Forget(server net.Addr, name string) error {
	if err := os.Remove(d.path(server, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
