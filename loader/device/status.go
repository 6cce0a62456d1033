// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"slices"
)

// Status is what the server serves now.
type Status struct {
	Processes []Process `json:"processes"`
}

// Process is a process that has opened the device, and what it uses.
type Process struct {
	PID       int    `json:"pid"`
	UID       uint32 `json:"uid"`
	QPs       int64  `json:"queue_pairs"` // with shared receive queues
	MRs       int64  `json:"regions"`     // with windows
	CQEntries int64  `json:"cq_entries"`
	Bytes     int64  `json:"bytes"` // of arenas and queues
}

// Status returns the processes, ordered by their IDs.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Processes: []Process{}}
	for c := range s.clients {
		u := c.account.usage()
		st.Processes = append(st.Processes, Process{
			PID: int(c.pid), UID: c.uid, QPs: u[resQPs], MRs: u[resMRs], CQEntries: u[resCQEntries], Bytes: u[resBytes],
		})
	}
	slices.SortFunc(st.Processes, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return st
}
