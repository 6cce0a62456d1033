// SPDX-License-Identifier: Apache-2.0

package vmm

// Stats are counters of a region or map, in pages, since it was made.
type Stats struct {
	Faults       uint64 // accesses that waited for a page, or that a map's handler served
	NoRoom       uint64 // faults that found free local memory at or below the threshold
	PageIns      uint64 // pages that were read from the store for an access
	Prefetched   uint64 // pages that were read from the store without an access
	PrefetchHits uint64 // prefetched pages whose first access was seen (in a map: markers, and pages in flight)
	PageOuts     uint64 // pages that were written to the store
	Drops        uint64 // local pages that were freed
	ReadErrors   uint64 // READs that the store failed
	WriteErrors  uint64 // WRITEs that the store failed; the page stays local
	Deadlines    uint64 // faults that ended with ErrDeadline or ErrNoRoom

	Resident int // local pages in use
	Local    int // local pages that may be in use
	Stored   int // pages that have content in the store
	Lost     int // pages of a map whose accesses fail
}

// Usage is what the allocation of the pool needs to know of one period (S4.2).
type Usage struct {
	Demand  uint64 // faults that found free local memory at or below the threshold
	Touched uint64 // distinct pages that were read from the store or written to it
}
