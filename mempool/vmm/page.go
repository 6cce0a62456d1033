// SPDX-License-Identifier: Apache-2.0

package vmm

import "time"

// PageSize is the unit of transfers, of local memory and of faults, in bytes.
const PageSize = 4096

// pageState is where the content of a page is.
type pageState uint8

const (
	stateFresh    pageState = iota // never written: all zeroes, nowhere
	stateRemote                    // in the store
	stateQueued                    // an access waits until a local page is free
	stateReading                   // a READ of the store is outstanding
	stateHeld                      // prefetched into a buffer; the next access installs it
	stateResident                  // in local memory
	stateLost                      // cannot be had any more (only maps, which cannot repeat an access)
)

// page is the entry of a page.
type page struct {
	slot       uint32 // index in pager.slots, if the page has a local page
	pins       uint32 // users that need the page where it is
	period     uint32 // the last period in which the page was accessed while leased, see Usage
	state      pageState
	referenced bool // an access came since the clock hand was here
	dirty      bool // changed since the last WRITE to the store was started
	stored     bool // the store has content of this page
	writing    bool // a WRITE to the store is outstanding
	prefetched bool // read without an access, and not accessed yet
	marker     bool // prefetched; the access to it starts the next prefetch
}

// mode is what an access does.
type mode uint8

const (
	forRead mode = iota
	forWrite
)

// fault is an access, or several, that wait for a page.
type fault struct {
	page     int64
	mode     mode
	deadline time.Time
	began    time.Time
	waiters  chan struct{} // closed at the end
	finished bool
	err      error // set before waiters is closed
}
