// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/softroce/softroce-xdp/internal/files"
	"github.com/softroce/softroce-xdp/mempool/lease"
)

// stateVersion is the version of the state file.
const stateVersion = 1

// state is the state file.
type state struct {
	Version   int    `json:"version"`
	SlabBytes uint64 `json:"slab_bytes"`
	lease.Saved
}

// restore reads the state file, if there is one.
func (s *Server) restore() error {
	if s.c.StateFile == "" {
		return nil
	}
	b, err := os.ReadFile(s.c.StateFile)
	if errors.Is(err, fs.ErrNotExist) {
		s.store() // it warns if the file cannot be written
		return nil
	}
	if err != nil {
		return err
	}
	var old state
	err = json.Unmarshal(b, &old)
	switch {
	case err != nil:
		return fmt.Errorf("state file %s: %w: remove it to begin without leases", s.c.StateFile, err)
	case old.Version != stateVersion:
		return fmt.Errorf("state file %s: version %d, and this program has version %d: remove it to begin without leases", s.c.StateFile, old.Version, stateVersion)
	case old.SlabBytes != s.c.SlabBytes:
		return fmt.Errorf("state file %s: slabs of %d bytes, and now %d: choose the same, or remove it to begin without leases", s.c.StateFile, old.SlabBytes, s.c.SlabBytes)
	}
	if err := s.table.Restore(s.now(), old.Saved); err != nil {
		return fmt.Errorf("state file %s: %w: remove it to begin without leases", s.c.StateFile, err)
	}
	return nil
}

// store writes the state file if the state has changed.
func (s *Server) store() {
	if s.c.StateFile == "" {
		return
	}
	s.mu.Lock()
	changes, now := s.table.Changes(), state{stateVersion, s.c.SlabBytes, s.table.Save()}
	stored := changes == s.saved && changes > 0
	s.mu.Unlock()
	if stored {
		return
	}
	b, err := json.MarshalIndent(now, "", "  ")
	if err == nil {
		err = files.WriteState(s.c.StateFile, append(b, '\n'))
	}
	if err != nil {
		if !s.warned {
			s.c.Report("", nil, fmt.Errorf("the state file cannot be written: %w", err))
		}
		s.warned = true
		return
	}
	s.saved, s.warned = changes, false
}
