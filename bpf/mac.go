// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"sync/atomic"
	"unsafe"
)

// SetMAC writes the MAC address of the interface into a live config map. Address and WindowOff are one
// aligned word of 64 bits, which the data plane reads in one load: it never has half of a new address,
// with which packets would be taken for those of another host. Another process may write WindowOff
// meanwhile.
func SetMAC(c *Config, mac [6]byte) {
	word := (*uint64)(unsafe.Pointer(&c.Mac))
	for {
		old := atomic.LoadUint64(word)
		next := *(*[8]byte)(unsafe.Pointer(&old))
		copy(next[:], mac[:])
		if atomic.CompareAndSwapUint64(word, old, *(*uint64)(unsafe.Pointer(&next))) {
			return
		}
	}
}
