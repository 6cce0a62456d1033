// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

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
	if err := writeFile(s.c.StateFile, now); err != nil {
		if !s.warned {
			s.c.Report("", nil, fmt.Errorf("the state file cannot be written: %w", err))
		}
		s.warned = true
		return
	}
	s.saved, s.warned = changes, false
}

// writeFile replaces a file at once: after a crash it is the old or the new one.
func writeFile(path string, value any) error {
	b, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
