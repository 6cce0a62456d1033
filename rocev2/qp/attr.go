// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
)

// Attr are the attributes that Modify sets (IBTA 11.2.5.2).
type Attr struct {
	State   State
	PMTU    rocev2.PMTU
	DestQPN uint32
	PKey    uint16     // 0 = default
	QKey    uint32     // UD
	SQPSN   rocev2.PSN // first PSN that we send
	RQPSN   rocev2.PSN // first PSN that we expect
	Access  mem.Access // what the peer may do: RemoteWrite, RemoteRead, RemoteAtomic

	MaxRdAtomic     uint8 // READs and ATOMICs that we keep outstanding
	MaxDestRdAtomic uint8 // and that the peer may
	MinRNRTimer     uint8 // code of the wait that our RNR NAKs ask for (table 45)
	Timeout         uint8 // of ACKs: 4.096 us * 2^Timeout, 0 = never
	RetryCnt        uint8 // 0..7
	RNRRetry        uint8 // 0..6, 7 = for ever

	SQLimit int // 0, or reserved

	// Selective says that the peer is an engine of ours and understands SACK
	// (negotiated by HELLO).
	Selective bool
}

// AttrMask says which fields of Attr a Modify sets.
type AttrMask uint32

// The bits of AttrMask, one a field.
const (
	MaskState AttrMask = 1 << iota
	MaskPMTU
	MaskDestQPN
	MaskPKey
	MaskQKey
	MaskSQPSN
	MaskRQPSN
	MaskAccess
	MaskMaxRdAtomic
	MaskMaxDestRdAtomic
	MaskMinRNRTimer
	MaskTimeout
	MaskRetryCnt
	MaskRNRRetry
	MaskSelective
)
