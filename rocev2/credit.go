// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// CreditLen is the size of the body of CREDIT_GRANT and CREDIT_RETURN in bytes: that
// of HELLO, so that the data plane meets control packets of one size only.
const CreditLen = 32

// CreditVersion is the version of both bodies.
const CreditVersion = 1

// Flags of CREDIT_GRANT.
const (
	CreditOpen   uint16 = 1 << iota // the account is new
	CreditRecall                    // give up what is not used
)

// Flags of CREDIT_RETURN.
const (
	CreditExpired uint16 = 1 << iota // given up unasked; no more is wanted for now
	CreditUnknown                    // no account of this epoch
)

// CreditGrant is the body of CREDIT_GRANT, what a receiver tells a sender of its
// pre-credit (S5.1, cc/precredit). Limit is a running total of bytes modulo 2^32.
//
//	0 version(16)  2 flags(16)  4 epoch(32)  8 limit(32)  12 credit_seq(16)  14 zero(16)
//	16 life_ns(64)  24 zero(64)
type CreditGrant []byte

// CreditReturn is the body of CREDIT_RETURN, the sender's answer. Limit, sent and void
// are running totals of bytes modulo 2^32.
//
//	0 version(16)  2 flags(16)  4 epoch(32)  8 limit(32)  12 credit_seq(16)  14 zero(16)
//	16 sent(32)  20 void(32)  24 zero(64)
type CreditReturn []byte

// ParseCreditGrant returns the view on the first 32 bytes of b, or ErrShort. It judges
// no field: look at Version first.
func ParseCreditGrant(b []byte) (CreditGrant, error) {
	if len(b) < CreditLen {
		return nil, ErrShort
	}
	return CreditGrant(b[:CreditLen:CreditLen]), nil
}

// ParseCreditReturn is ParseCreditGrant for CREDIT_RETURN.
func ParseCreditReturn(b []byte) (CreditReturn, error) {
	if len(b) < CreditLen {
		return nil, ErrShort
	}
	return CreditReturn(b[:CreditLen:CreditLen]), nil
}

// CreditFields are the fields that both bodies have.
type CreditFields struct {
	Flags uint16
	Epoch uint32 // numbers the receiver's accounts
	Limit uint32 // GRANT: may be sent and given up; RETURN: highest one received
	Seq   uint16 // GRANT: its number; RETURN: the latest received
}

func creditFields(b []byte) CreditFields {
	return CreditFields{
		Flags: binary.BigEndian.Uint16(b[2:4]),
		Epoch: binary.BigEndian.Uint32(b[4:8]),
		Limit: binary.BigEndian.Uint32(b[8:12]),
		Seq:   binary.BigEndian.Uint16(b[12:14]),
	}
}

func putCredit(b []byte, f CreditFields) {
	clear(b)
	binary.BigEndian.PutUint16(b[0:2], CreditVersion)
	binary.BigEndian.PutUint16(b[2:4], f.Flags)
	binary.BigEndian.PutUint32(b[4:8], f.Epoch)
	binary.BigEndian.PutUint32(b[8:12], f.Limit)
	binary.BigEndian.PutUint16(b[12:14], f.Seq)
}

// Fields returns what both bodies have.
func (h CreditGrant) Fields() CreditFields { return creditFields(h) }

// Version is that of the body, CreditVersion.
func (h CreditGrant) Version() uint16 { return binary.BigEndian.Uint16(h[0:2]) }

// LifeNs is how long pre-credit may lie unused at the sender, nanoseconds.
func (h CreditGrant) LifeNs() uint64 { return binary.BigEndian.Uint64(h[16:24]) }

// Set writes the whole body.
func (h CreditGrant) Set(f CreditFields, lifeNs uint64) {
	putCredit(h, f)
	binary.BigEndian.PutUint64(h[16:24], lifeNs)
}

// Fields returns what both bodies have.
func (h CreditReturn) Fields() CreditFields { return creditFields(h) }

// Version is that of the body, CreditVersion.
func (h CreditReturn) Version() uint16 { return binary.BigEndian.Uint16(h[0:2]) }

// Sent is what the sender has sent on pre-credit.
func (h CreditReturn) Sent() uint32 { return binary.BigEndian.Uint32(h[16:20]) }

// Void is what it has given up unsent.
func (h CreditReturn) Void() uint32 { return binary.BigEndian.Uint32(h[20:24]) }

// Set writes the whole body.
func (h CreditReturn) Set(f CreditFields, sent, void uint32) {
	putCredit(h, f)
	binary.BigEndian.PutUint32(h[16:20], sent)
	binary.BigEndian.PutUint32(h[20:24], void)
}
