// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"encoding/binary"
	"net/netip"
)

// RateLimitLen is the size of the body of RATE_LIMIT in bytes: that of HELLO.
const RateLimitLen = HelloLen

// RateLimitVersion is the version of the body.
const RateLimitVersion = 1

// RateLimit is the body of RATE_LIMIT, with which a receiver limits what one host sends to it
// (S1.8, S4.5). Big-endian; it stands between BTH and ICRC.
//
//	0 version(16)=1  2 flags(16)=0  4 epoch(32)  8 rate(64)  16 life(64)  24 zero(64)
type RateLimit []byte

// RateLimitFields are the fields of a RATE_LIMIT.
type RateLimitFields struct {
	Epoch   uint32 // a later one (modulo 2^32) replaces it, an earlier one is ignored
	RateBps uint64 // bit/s of L2 frames without the stamp option; not 0
	LifeNs  uint64 // lifetime from the arrival on; 0 ends the limit
}

// ParseRateLimit returns the view on the first 32 bytes of b, or ErrShort. It judges no field:
// look at Version first.
func ParseRateLimit(b []byte) (RateLimit, error) {
	if len(b) < RateLimitLen {
		return nil, ErrShort
	}
	return RateLimit(b[:RateLimitLen:RateLimitLen]), nil
}

// Version is that of the body, RateLimitVersion.
func (h RateLimit) Version() uint16 { return binary.BigEndian.Uint16(h[0:2]) }

// Fields returns the fields.
func (h RateLimit) Fields() RateLimitFields {
	return RateLimitFields{
		Epoch:   binary.BigEndian.Uint32(h[4:8]),
		RateBps: binary.BigEndian.Uint64(h[8:16]),
		LifeNs:  binary.BigEndian.Uint64(h[16:24]),
	}
}

// Set writes the whole body.
func (h RateLimit) Set(f RateLimitFields) {
	clear(h)
	binary.BigEndian.PutUint16(h[0:2], RateLimitVersion)
	binary.BigEndian.PutUint32(h[4:8], f.Epoch)
	binary.BigEndian.PutUint64(h[8:16], f.RateBps)
	binary.BigEndian.PutUint64(h[16:24], f.LifeNs)
}

// BuildRateLimit writes a RATE_LIMIT as BuildHello writes a HELLO: a datagram with a stamp
// option that egress fills in. It returns the length, and the errors of BuildHello.
func BuildRateLimit(b []byte, src, dst netip.Addr, f RateLimitFields) (int, error) {
	return buildControl(b, Datagram{Src: src, Dst: dst, Opcode: OpRateLimit, IPID: uint16(f.Epoch) | 1, RateLimit: f, Stamp: &Stamp{}})
}
