// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// guidFor returns the default of Config.GUID: a number for each peer, from a secret of 128 bits. So a host that has
// got a REP of this end does not know by which GUID other hosts know it, and cannot make a REQ in its name that
// their communication managers take for one of a restarted host (IBTA 12.9.8.3.1).
func guidFor(random func() uint32) func(netip.Addr) uint64 {
	var secret [16]byte
	for i := 0; i < len(secret); i += 4 {
		binary.BigEndian.PutUint32(secret[i:], random())
	}
	return func(peer netip.Addr) uint64 {
		a := peer.As16()
		sum := sha256.Sum256(append(secret[:len(secret):len(secret)], a[:]...))
		return binary.BigEndian.Uint64(sum[:]) | 1 // 0 is no GUID
	}
}
