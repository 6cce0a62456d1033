// SPDX-License-Identifier: Apache-2.0

package clientmem

import "unsafe"

// addressOf is the package's unsafe code: the address of the first byte.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
