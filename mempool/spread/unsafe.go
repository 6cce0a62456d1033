// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"unsafe"

	"github.com/softroce/softroce-xdp/mempool/node"
)

// aligned returns the part of a slice that begins at a multiple of node.PageBytes.
func aligned(b []byte, bytes int) []byte {
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (node.PageBytes - 1))
	return b[skip : skip+bytes : skip+bytes]
}
