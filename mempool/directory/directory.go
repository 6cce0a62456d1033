// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Server is what the directory tells of a server.
type Server struct {
	Name      string `json:"name"`    // 1 to MaxName letters, digits, '-', '_' and '.'
	Address   string `json:"address"` // "host:port", where nodes join
	SlabBytes uint64 `json:"slab_bytes"`
	Slabs     int    `json:"slabs"`
	Free      int    `json:"free_slabs"` // free slabs when the entry was written
	Nodes     []Node `json:"nodes"`      // nodes in the order in which they have joined
}

// Node is a node that leases memory of a server.
type Node struct {
	Name  string `json:"name"`
	Slabs int    `json:"slabs"`
}

// FreeBytes returns the memory that no node leased when the entry was written.
func (s Server) FreeBytes() uint64 { return uint64(max(s.Free, 0)) * s.SlabBytes }

// MaxName is how many bytes the name of a server has at most.
const MaxName = 20

// Errors of directories.
var (
	// ErrTaken: a server at another address has this name.
	ErrTaken = errors.New("another server has this name")
	// ErrUnreachable: the engine does not answer.
	ErrUnreachable = errors.New("the directory does not answer")
	// ErrName: a name has other characters than those of Server.Name.
	ErrName = fmt.Errorf("a name of a server has 1 to %d letters, digits, '-', '_' and '.'", MaxName)
	// ErrExpired: an entry has ended, because it was not renewed in time.
	ErrExpired = errors.New("the entry has expired")
)

// Directory is a list of servers. Any goroutine may call its methods.
type Directory interface {
	// Servers returns the servers, in the order of their names. It returns within the time of ctx.
	Servers(ctx context.Context) ([]Server, error)

	// Add makes an entry, which ends with Entry.Close, or when it was not renewed for its TTL.
	Add(ctx context.Context, s Server) (Entry, error)
}

// Entry is the entry of a server. Its methods are not called at the same time.
type Entry interface {
	// Renew keeps the entry for another TTL. ErrExpired: it has ended, and Add makes another one.
	Renew(ctx context.Context) error

	// Replace changes what the entry tells. ErrExpired: it has ended.
	Replace(ctx context.Context, s Server) error

	// Close ends the entry.
	Close(ctx context.Context) error
}

// Check returns an error if an entry is not valid: that of a broken or foreign program, for example.
func (s Server) Check() error {
	if !validName(s.Name) {
		return fmt.Errorf("server %.40q: %w", s.Name, ErrName)
	}
	if _, _, err := net.SplitHostPort(s.Address); err != nil {
		return fmt.Errorf("server %s: %w", s.Name, err)
	}
	if s.SlabBytes == 0 || s.SlabBytes > 1<<32-1 || s.Slabs < 0 || s.Free < 0 || s.Free > s.Slabs {
		return fmt.Errorf("server %s: %d of %d slabs of %d bytes are free: no such server is possible", s.Name, s.Free, s.Slabs, s.SlabBytes)
	}
	return nil
}

func validName(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return len(s) > 0 && len(s) <= MaxName
}

// One is a directory of one server without an engine: the default of a pool.
type One Server

// Servers returns the server.
func (o One) Servers(context.Context) ([]Server, error) { return []Server{Server(o)}, nil }

// Add is not possible.
func (o One) Add(context.Context, Server) (Entry, error) {
	return nil, errors.New("a directory of one server has no room for others: use etcd")
}
