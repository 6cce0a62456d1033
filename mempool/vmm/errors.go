// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"errors"
	"fmt"
)

// Causes of a PageError, besides the errors of a store.
var (
	// ErrDeadline: the page was not there in time.
	ErrDeadline = errors.New("the page did not arrive before the deadline")
	// ErrNoRoom: all local pages are pinned, or wait for a WRITE to the store.
	ErrNoRoom = errors.New("no local page could be freed before the deadline")
	// ErrClosed: the region or map was closed.
	ErrClosed = errors.New("closed")
	// ErrHandler: the process that handles the faults of a map has ended.
	ErrHandler = errors.New("the fault handler process has ended; pages that were not local are lost")
)

// ErrRange: an access is outside of a region.
var ErrRange = errors.New("outside of the region")

// PageError is the error of an access to a page whose content could not be had. The access did
// not see zeroes or other data in its place.
type PageError struct {
	Offset int64 // first byte of the page in the region or map
	Err    error // the cause: an error of this package, or of the store
}

func (e *PageError) Error() string {
	return fmt.Sprintf("vmm: page at offset %#x: %v", e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *PageError) Unwrap() error { return e.Err }
