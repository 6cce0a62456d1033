// SPDX-License-Identifier: Apache-2.0

package ring

import "sync/atomic"

// prefetch has the cache line of a word loaded without waiting for it.
//
//go:noescape
func prefetch(w *atomic.Uint64)
