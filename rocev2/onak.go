// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"encoding/binary"
	"fmt"
)

// ONakLen is the size of the body of ONAK in bytes.
const ONakLen = 8

// ONak refuses one packet; BTH.PSN is its PSN. The target has changed no memory for it,
// and does not count it as arrived.
//
//	0 message id(32)  4 code(8)  5 zero(24)
type ONak []byte

// ONakCode says why. The values 1 to 3 are those of NAKCode.
type ONakCode uint8

// The codes.
const (
	ONakInvalidRequest ONakCode = ONakCode(NAKInvalidRequest) // malformed, or no such notification receive queue
	ONakRemoteAccess   ONakCode = ONakCode(NAKRemoteAccess)   // key, range or rights
	ONakRemoteOp       ONakCode = ONakCode(NAKRemoteOp)       // the target's memory failed
	ONakNotReady       ONakCode = 0x20                        // the notification receive queue is full: repeat later
)

// String is the name of the code.
func (c ONakCode) String() string {
	if c == ONakNotReady {
		return "not ready"
	}
	if c >= ONakInvalidRequest && c <= ONakRemoteOp {
		return [...]string{"invalid request", "remote access", "remote operation"}[c-1]
	}
	return fmt.Sprintf("code %d", uint8(c))
}

// ONakFields are the fields of an ONAK.
type ONakFields struct {
	Message uint32 // id
	Code    ONakCode
}

// ParseONak returns the view on the first 8 bytes of b, or ErrShort.
func ParseONak(b []byte) (ONak, error) {
	if len(b) < ONakLen {
		return nil, ErrShort
	}
	return ONak(b[:ONakLen:ONakLen]), nil
}

// Fields returns all fields.
func (h ONak) Fields() ONakFields { return ONakFields{binary.BigEndian.Uint32(h[0:4]), ONakCode(h[4])} }

// Set writes the whole body.
func (h ONak) Set(f ONakFields) {
	binary.BigEndian.PutUint32(h[0:4], f.Message)
	binary.BigEndian.PutUint32(h[4:8], uint32(f.Code)<<24)
}
