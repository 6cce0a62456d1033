// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// ONotifyLen is the size of the body of ONOTIFY in bytes.
const ONotifyLen = 24

// ONotify is the asynchronous notification (S3.3): the whole message is in the target's
// memory. It has a PSN of its own and is repeated until ONOTIFY_ACK.
//
//	0 message id(32)  4 queue(32)  8 descriptor(64)  16 total length(32)  20 status(32)
type ONotify []byte

// ONotifyFields are the fields of an ONOTIFY.
type ONotifyFields struct {
	Message    uint32 // id
	Queue      uint32 // number of the notification receive queue at the target
	Descriptor uint64 // descriptor of the message, from the application; any bits
	Length     uint32 // bytes of the message
	Status     uint32 // bit 0: solicited; the others are zero
}

// ONotifySolicited is bit 0 of the status of an ONOTIFY.
const ONotifySolicited uint32 = 1

// ParseONotify returns the view on the first 24 bytes of b, or ErrShort.
func ParseONotify(b []byte) (ONotify, error) {
	if len(b) < ONotifyLen {
		return nil, ErrShort
	}
	return ONotify(b[:ONotifyLen:ONotifyLen]), nil
}

// Fields returns all fields.
func (h ONotify) Fields() ONotifyFields {
	return ONotifyFields{
		Message:    binary.BigEndian.Uint32(h[0:4]),
		Queue:      binary.BigEndian.Uint32(h[4:8]),
		Descriptor: binary.BigEndian.Uint64(h[8:16]),
		Length:     binary.BigEndian.Uint32(h[16:20]),
		Status:     binary.BigEndian.Uint32(h[20:24]),
	}
}

// Set writes the whole body.
func (h ONotify) Set(f ONotifyFields) {
	binary.BigEndian.PutUint32(h[0:4], f.Message)
	binary.BigEndian.PutUint32(h[4:8], f.Queue)
	binary.BigEndian.PutUint64(h[8:16], f.Descriptor)
	binary.BigEndian.PutUint32(h[16:20], f.Length)
	binary.BigEndian.PutUint32(h[20:24], f.Status)
}
