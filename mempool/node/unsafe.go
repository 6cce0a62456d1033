// SPDX-License-Identifier: Apache-2.0

package node

import "unsafe"

// address returns where a slice begins, to find the region that it is in.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
