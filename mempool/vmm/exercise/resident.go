// SPDX-License-Identifier: Apache-2.0

package exercise

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inMemory reports whether a page would be found without input or output (mincore(2)).
func inMemory(page []byte) (bool, error) {
	var in byte
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(page))), pageBytes, uintptr(unsafe.Pointer(&in)))
	if errno != 0 {
		return false, fmt.Errorf("mincore: %w", errno)
	}
	return in&1 != 0, nil
}
