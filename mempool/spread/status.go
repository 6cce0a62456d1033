// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"slices"
	"strings"
)

// Status is the state of a store, for people and programs.
type Status struct {
	Servers   []ServerStatus `json:"servers"` // servers in the order of their names
	Pages     int            `json:"pages"`   // pages that have a copy
	Single    int            `json:"single_copy_pages"`
	Missing   int            `json:"pages_without_copy"` // lost, and not written again
	Counts    Counts         `json:"counts"`
	Directory string         `json:"directory_error,omitempty"`
}

// ServerStatus is the state of a server that is listed or joined.
type ServerStatus struct {
	Name      string `json:"name"`
	Address   string `json:"address"`
	Connected bool   `json:"connected"`
	Leased    uint64 `json:"leased_bytes"`
	Room      int    `json:"room_pages"`
	Stored    int    `json:"stored_pages"`
}

// Status returns the state. It looks at each page.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Status{Counts: s.table.counts, Servers: []ServerStatus{}, Directory: s.directoryError}
	for _, p := range s.table.pages {
		switch {
		case p.writing:
		case len(p.copies) == 0:
			out.Missing++
		case len(p.copies) < s.table.copies:
			out.Single++
		}
		if len(p.copies) > 0 {
			out.Pages++
		}
	}
	for _, x := range s.listed {
		if s.links[x.Name] == nil {
			out.Servers = append(out.Servers, ServerStatus{Name: x.Name, Address: x.Address})
		}
	}
	for _, l := range s.links {
		x := ServerStatus{Name: l.name, Address: l.address, Leased: l.node.Lease().Bytes()}
		if t := s.table.server(l.name); t != nil {
			x.Connected, x.Room, x.Stored = true, t.room, t.stored
		}
		out.Servers = append(out.Servers, x)
	}
	slices.SortFunc(out.Servers, func(a, b ServerStatus) int { return strings.Compare(a.Name, b.Name) })
	return out
}
