// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// ONotifyAckLen is the size of the body of ONOTIFY_ACK in bytes.
const ONotifyAckLen = 8

// ONotifyAck confirms that a notification is in its receive queue, or was before.
// BTH.PSN is the PSN of the ONOTIFY.
//
//	0 message id(32)  4 echo(32)
type ONotifyAck []byte

// ONotifyAckFields are the fields of an ONOTIFY_ACK.
type ONotifyAckFields struct {
	Message uint32 // id
	EchoUs  uint32 // echo of T1, as in OACK
}

// ParseONotifyAck returns the view on the first 8 bytes of b, or ErrShort.
func ParseONotifyAck(b []byte) (ONotifyAck, error) {
	if len(b) < ONotifyAckLen {
		return nil, ErrShort
	}
	return ONotifyAck(b[:ONotifyAckLen:ONotifyAckLen]), nil
}

// Fields returns all fields.
func (h ONotifyAck) Fields() ONotifyAckFields {
	return ONotifyAckFields{binary.BigEndian.Uint32(h[0:4]), binary.BigEndian.Uint32(h[4:8])}
}

// Set writes the whole body.
func (h ONotifyAck) Set(f ONotifyAckFields) {
	binary.BigEndian.PutUint32(h[0:4], f.Message)
	binary.BigEndian.PutUint32(h[4:8], f.EchoUs)
}
