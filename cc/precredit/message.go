// SPDX-License-Identifier: Apache-2.0

package precredit

// Grant is what a receiver tells a sender outside of ACKs: CREDIT_GRANT. All sums
// are running totals of the epoch, bytes modulo 2^32.
type Grant struct {
	Epoch uint32 // of this sender's account; a later one replaces it
	Limit uint32 // the sender may have sent and given up this much since it began
	Seq   uint16 // numbers the grants; ACKs, data and returns name the latest
	// Open: the receiver does not know yet that the sender has this epoch.
	Open bool
	// Recall: give up what is not used.
	Recall bool
	LifeNs int64 // how long pre-credit may lie unused at the sender
}

// Return is what a sender tells a receiver outside of data: CREDIT_RETURN. It
// answers every grant.
type Return struct {
	Epoch uint32
	Limit uint32 // highest limit heard
	Sent  uint32 // on pre-credit
	Void  uint32 // given up unsent
	Seq   uint16 // latest grant heard
	// Expired: given up because it lay unused, or after a timeout; the sender
	// wants no more until its next flow.
	Expired bool
	// Unknown: the sender has no account of this epoch. It was restarted.
	Unknown bool
}

// Credit is what an ACK tells a sender (S5.5), and what a data packet tells a
// receiver: the credit and credit_seq fields of the stamp option.
type Credit struct {
	Bytes uint32 // ACK: limit. Data: sent, this packet included
	Seq   uint16
}

// after tells whether the running total a is beyond b.
func after(a, b uint32) bool { return int32(a-b) > 0 }

// newer tells whether sequence number a is beyond b.
func newer(a, b uint16) bool { return int16(a-b) > 0 }
