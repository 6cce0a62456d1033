// SPDX-License-Identifier: Apache-2.0

//go:build race

package xsk

// poisoned is true if freed frames are overwritten, so that code that
// keeps a slice of one reads wrong data. True in builds with the race detector, which itself
// does not see memory that is shared with the kernel.
const poisoned = true
