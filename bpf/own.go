// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"net/netip"
)

// Numbers of this host's addresses: DestRegs.RxOwn and the values of own_addresses.
const (
	OwnUnknown = uint16(SoftroceSrOwnSR_OWN_UNKNOWN)
	OwnFirst4  = uint16(SoftroceSrOwnSR_OWN_FIRST4)
	OwnFirst6  = uint16(SoftroceSrOwnSR_OWN_FIRST6)
	OwnOthers  = uint16(SoftroceSrOwnSR_OWN_OTHERS)
)

// ownFold is OWN_FOLD of lib/own.h.
const ownFold = 0x9e3779b97f4a7c15

// OwnWord returns an address of this host as OwnPair.Own, DestRegs.TxOwn and Event.Own have it, as
// lib/own.h computes it. It is 0 for an invalid address.
func OwnWord(a netip.Addr) uint64 {
	switch a = a.Unmap(); {
	case a.Is4():
		b := a.As4()
		return uint64(binary.NativeEndian.Uint32(b[:]))
	case a.Is6():
		b := a.As16()
		return binary.NativeEndian.Uint64(b[:8])*ownFold + binary.NativeEndian.Uint64(b[8:])
	}
	return 0
}

// OwnHalves returns an IPv6 address as OwnWords.First6 has it.
func OwnHalves(a netip.Addr) [2]uint64 {
	b := a.As16()
	return [2]uint64{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:])}
}
