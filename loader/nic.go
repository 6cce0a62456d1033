// SPDX-License-Identifier: Apache-2.0

package loader

// NIC is how the agent serves an engine to other processes (package loader/device). It is a part of
// the state of an attachment.
type NIC struct {
	Mode    uint32    `json:"mode"`  // of the socket
	Group   int       `json:"group"` // of the socket; 0: that of the agent
	Process NICLimits `json:"process"`
	User    NICLimits `json:"user"`
}

// NICLimits are the most that a process, or all processes of a user, may use. 0: the default of the
// device server.
type NICLimits struct {
	Processes uint32 `json:"processes,omitempty"` // of a user
	QPs       uint32 `json:"queue_pairs,omitempty"`
	MRs       uint32 `json:"regions,omitempty"`
	CQEntries uint32 `json:"cq_entries,omitempty"`
	Bytes     uint64 `json:"bytes,omitempty"`
}
