// SPDX-License-Identifier: Apache-2.0

package rocev2

import "time"

// AETHLen is the size of the acknowledge extended transport header (IBTA 9.3).
const AETHLen = 4

// AETH acknowledges or refuses.
//
//	0 syndrome(8)  1 MSN(24)
type AETH []byte

// ParseAETH returns the view on the first 4 bytes of b, or ErrShort.
func ParseAETH(b []byte) (AETH, error) {
	if len(b) < AETHLen {
		return nil, ErrShort
	}
	return AETH(b[:AETHLen:AETHLen]), nil
}

// Syndrome is byte 0.
func (h AETH) Syndrome() Syndrome { return Syndrome(h[0]) }

// MSN is the message sequence number of the last message completed, 24 bits.
func (h AETH) MSN() uint32 { return uint24(h[1:4]) }

// SetSyndrome writes byte 0.
func (h AETH) SetSyndrome(s Syndrome) { h[0] = byte(s) }

// SetMSN writes the low 24 bits of msn.
func (h AETH) SetMSN(msn uint32) { putUint24(h[1:4], msn) }

// Syndrome is byte 0 of the AETH: what happened in bits 7:5 and its argument in
// bits 4:0. Bit 7 is reserved. Judge by Type: the argument differs between
// vendors.
type Syndrome uint8

// AckType is bits 7:5 of a syndrome.
type AckType uint8

// The types of acknowledgement.
const (
	AckPositive AckType = 0
	AckRNR      AckType = 1
	AckReserved AckType = 2
	AckNAK      AckType = 3
)

// NAKCode is bits 4:0 of a NAK syndrome.
type NAKCode uint8

// The NAK codes.
const (
	NAKPSNSequence    NAKCode = 0 // BTH.PSN is the one expected
	NAKInvalidRequest NAKCode = 1
	NAKRemoteAccess   NAKCode = 2
	NAKRemoteOp       NAKCode = 3
	NAKInvalidRD      NAKCode = 4
)

// CreditInvalid in bits 4:0 of an ACK says that the responder does not count
// end-to-end credits.
const CreditInvalid = 31

// SyndromeACK returns an ACK that grants the credit code 0..31 (see Credits).
func SyndromeACK(code uint8) Syndrome { return Syndrome(code & 31) }

// SyndromeRNR returns an RNR NAK with a timer code 0..31 (see RNRTime).
func SyndromeRNR(code uint8) Syndrome { return Syndrome(AckRNR)<<5 | Syndrome(code&31) }

// SyndromeNAK returns a NAK.
func SyndromeNAK(c NAKCode) Syndrome { return Syndrome(AckNAK)<<5 | Syndrome(c&31) }

// Type is bits 7:5.
func (s Syndrome) Type() AckType { return AckType(s >> 5) }

// Value is bits 4:0: credit code, RNR timer code or NAK code.
func (s Syndrome) Value() uint8 { return uint8(s & 31) }

// NAK returns the code of a NAK; ok is false for anything else.
func (s Syndrome) NAK() (c NAKCode, ok bool) {
	return NAKCode(s & 31), s.Type() == AckNAK
}

// Credits decodes the receive credits of an ACK; ok is false if
// the responder grants none that count.
func (s Syndrome) Credits() (n int, ok bool) {
	if s.Type() != AckPositive || s.Value() == CreditInvalid {
		return 0, false
	}
	return int(creditTable[s.Value()]), true
}

var creditTable = [31]uint16{
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
}

// CreditCode returns the largest credit code that does not promise more than n.
func CreditCode(n int) uint8 {
	code := uint8(0)
	for i, c := range creditTable {
		if int(c) <= n {
			code = uint8(i)
		}
	}
	return code
}

// RNRTime is the time that an RNR timer code asks the requester to wait.
// Code 0 is the longest, not the shortest.
func RNRTime(code uint8) time.Duration {
	return time.Duration(rnrTable[code&31]) * 10 * time.Microsecond
}

// In units of 10 microseconds.
var rnrTable = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288,
	16384, 24576, 32768, 49152,
}

// String names the syndrome as the decoder prints it.
func (s Syndrome) String() string {
	switch s.Type() {
	case AckPositive:
		return "ACK"
	case AckRNR:
		return "RNR"
	case AckNAK:
		if int(s.Value()) < len(nakNames) {
			return nakNames[s.Value()]
		}
		return "NAK"
	}
	return "AETH?"
}

var nakNames = [...]string{
	NAKPSNSequence:    "NAK(PSN)",
	NAKInvalidRequest: "NAK(invalid request)",
	NAKRemoteAccess:   "NAK(access)",
	NAKRemoteOp:       "NAK(operation)",
	NAKInvalidRD:      "NAK(invalid RD)",
}
