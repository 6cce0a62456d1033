// SPDX-License-Identifier: Apache-2.0

package precredit

// Grant is CREDIT_GRANT: what a receiver sends to a sender outside of ACKs. All sums
// are running totals of the epoch, bytes modulo 2^32.
type Grant struct {
	Epoch uint32 // epoch of this sender's account; a later one replaces it
	Limit uint32 // the sender may have sent and given up this much since it began
	Seq   uint16 // numbers the grants; ACKs, data and returns name the latest
	// Open: the receiver does not know yet that the sender has this epoch.
	Open bool
	// Recall: give up what is not used.
	Recall bool
	LifeNs int64 // time that pre-credit may lie unused at the sender
}

// Return is CREDIT_RETURN: what a sender sends to a receiver outside of data. It
// answers every grant.
type Return struct {
	Epoch uint32
	Limit uint32 // highest limit received
	Sent  uint32 // total sent on pre-credit
	Void  uint32 // given up unsent
	Seq   uint16 // latest grant received
	// Expired: given up because it lay unused, or after a timeout; the sender
	// wants no more until its next flow.
	Expired bool
	// Unknown: the sender has no account of this epoch. It was restarted.
	Unknown bool
}

// Credit is what an ACK carries to a sender (S5.5), and a data packet to a
// receiver: the credit and credit_seq fields of the stamp option.
type Credit struct {
	Bytes uint32 // ACK: limit. Data: sent, this packet included
	Seq   uint16
}

// after reports whether the running total a is beyond b.
func after(a, b uint32) bool { return int32(a-b) > 0 }

// follow keeps the first number that is accepted within reach of the latest.
func follow(first, latest uint16) uint16 {
	const reach = 1 << 14
	if latest-first > reach {
		return latest - reach
	}
	return first
}

// newer reports whether sequence number a is beyond b.
func newer(a, b uint16) bool { return int16(a-b) > 0 }
