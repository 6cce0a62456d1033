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
	SQPSN   rocev2.PSN // first PSN of our requests
	RQPSN   rocev2.PSN // first PSN of the peer's requests
	Access  mem.Access // what the peer may do: RemoteWrite, RemoteRead, RemoteAtomic

	MaxRdAtomic     uint8 // READs and ATOMICs outstanding to the peer
	MaxDestRdAtomic uint8 // READs and ATOMICs outstanding from the peer
	MinRNRTimer     uint8 // code of the wait in our RNR NAKs (IBTA table 45)
	Timeout         uint8 // of ACKs: 4.096 us * 2^Timeout, 0 = none
	RetryCnt        uint8 // 0..7
	RNRRetry        uint8 // 0..6, 7 = without limit

	SQLimit int // 0, or reserved

	// Selective means that the peer is a softroce engine and understands SACK
	// (negotiated by HELLO).
	Selective bool
}

// AttrMask selects the fields of Attr that a Modify sets.
type AttrMask uint32

// The bits of AttrMask, one for each field.
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
