// SPDX-License-Identifier: Apache-2.0

package client

import "unsafe"

// This file has all of the package's unsafe code: the address of a slice.

// addressOf returns the virtual address of the first byte.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
