// SPDX-License-Identifier: Apache-2.0

// Package mem is the interface between queue pairs and memory: what a queue pair may ask for, and
// the reasons of a refusal. Internal to this project. Package qp asks, package mr answers; neither
// imports the other.
package mem

import (
	"strconv"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Fault says why an access was refused. The zero value is no refusal.
type Fault uint8

// The faults. What each becomes on the wire and as completion status is decided
// by package qp.
const (
	FaultNone    Fault = iota
	FaultKey           // no such key, or an old one
	FaultPD            // the key belongs to another protection domain, or a window to another queue pair
	FaultState         // invalidated, or a window not bound
	FaultRange         // outside the region, or the address wraps
	FaultRights        // the region does not allow this
	FaultAlign         // an atomic at an address that is not a multiple of 8
	FaultBackend       // the memory behind the region failed
)

var faultNames = [...]string{
	"none", "unknown key", "wrong protection domain", "not valid now", "out of range",
	"right missing", "misaligned", "memory failed",
}

func (f Fault) String() string {
	if int(f) < len(faultNames) {
		return faultNames[f]
	}
	return "fault " + strconv.Itoa(int(f))
}

// Arrival is a WRITE that has arrived as a whole.
type Arrival struct {
	QPN    uint32 // queue pair at which it arrived
	RKey   uint32
	Addr   uint64 // address of the first byte, as the peer named it
	Len    uint32 // bytes, at least 1
	Imm    uint32 // host order
	HasImm bool
}

// Memory is what a queue pair can touch. All methods may be called for every
// packet: they do not allocate and do not block. Lengths are bytes; a length of zero
// touches nothing and needs no valid key (IBTA 9.7.4.1.5). An access that faults
// has touched nothing.
//
// Local methods take the lkey of a work request's list; remote ones the rkey of
// a packet that arrived for queue pair qpn of protection domain pd.
type Memory interface {
	CheckLocal(pd, lkey uint32, addr uint64, n uint32, need verbs.Access) Fault
	ReadLocal(pd, lkey uint32, addr uint64, dst []byte) Fault
	WriteLocal(pd, lkey uint32, addr uint64, src []byte) Fault

	CheckRemote(pd, qpn, rkey uint32, addr uint64, n uint32, need verbs.Access) Fault
	ReadRemote(pd, qpn, rkey uint32, addr uint64, dst []byte) Fault
	WriteRemote(pd, qpn, rkey uint32, addr uint64, src []byte) Fault

	// The atomics act on 8 bytes in host order and return what was there.
	CompareSwap(pd, qpn, rkey uint32, addr uint64, compare, swap uint64) (uint64, Fault)
	FetchAdd(pd, qpn, rkey uint32, addr uint64, add uint64) (uint64, Fault)

	// EndWrite is called when the last packet of a WRITE was written. Memory may forward the
	// message (S2.7).
	EndWrite(pd uint32, a Arrival)

	InvalidateRemote(pd, qpn, rkey uint32) Fault
	InvalidateLocal(pd, qpn, key uint32) Fault
	BindWindow(pd, qpn uint32, b verbs.Bind) Fault
}

// Transform puts bytes of memory into a packet in another form: encrypted.
type Transform interface {
	// Put writes src to dst in this form. Both have the same length, and are the same bytes or do not
	// overlap. The application may change src meanwhile.
	Put(dst, src []byte)
}

// Transformer is an optional interface of a Memory. Its methods are ReadLocal and ReadRemote with t.Put in the
// place of the copy, so that the bytes are not copied first where the memory is contiguous. After a fault dst is
// undefined, and t.Put may have been called.
type Transformer interface {
	TransformLocal(pd, lkey uint32, addr uint64, dst []byte, t Transform) Fault
	TransformRemote(pd, qpn, rkey uint32, addr uint64, dst []byte, t Transform) Fault
}
