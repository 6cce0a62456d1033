// SPDX-License-Identifier: Apache-2.0

package engine

// prefetch has the cache lines of a queue pair loaded that a message needs, without
// waiting for them. Where thousands of queue pairs are served one after the other, each line
// is a cache miss, and the code would take them one after the other, as it comes to them. Go has
// no word for it, and loads instead would wait. Where another goroutine posts work requests, they would also be a race
// with the core, which owns most of the fields.
//
//go:noescape
func prefetch(x *QP)
