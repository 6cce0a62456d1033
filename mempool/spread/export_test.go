// SPDX-License-Identifier: Apache-2.0

package spread

// Cut ends the connection to a server. The server is not told more than that the connection has ended.
func (s *Store) Cut(server string, cause error) { s.link(server).stop(cause) }

// Follows reports whether the store tries to keep a connection to a server.
func (s *Store) Follows(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served[server]
}

// Listed returns how many servers the directory has listed last.
func (s *Store) Listed() int { return len(s.known()) }
