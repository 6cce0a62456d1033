// SPDX-License-Identifier: Apache-2.0

package verbs

// Access is a set of rights on a memory region (IBTA 10.6.3).
type Access uint8

// The rights. Reading one's own memory needs none.
const (
	AccessLocalWrite Access = 1 << iota
	AccessRemoteWrite
	AccessRemoteRead
	AccessRemoteAtomic
	AccessBindWindows
	AccessZeroBased // addresses count from the start of the region
)

// Bind is what a bind work request asks for: the window Window becomes
// [Addr, Addr+Length) of region Region, with these rights, under NewKey
// (type 2B, IBTA 10.6.7.2.6).
type Bind struct {
	Window uint32 // current rkey of the window
	Region uint32 // lkey of the region
	Addr   uint64
	Length uint64
	Access Access
	NewKey uint8 // new low 8 bits of the window's rkey: the part that a consumer owns
}
