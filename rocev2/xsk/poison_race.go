// SPDX-License-Identifier: Apache-2.0

//go:build race

package xsk

// poisoned says that frames are overwritten when they go back, so that whoever
// kept a slice of one sees it. On in builds with the race detector, which itself
// does not see memory that is shared with the kernel.
const poisoned = true
