// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/softroce/softroce-xdp/rocev2"
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
	Access  Access     // rights of the peer: RemoteWrite, RemoteRead, RemoteAtomic

	MaxRdAtomic     uint8 // READs and ATOMICs outstanding to the peer
	MaxDestRdAtomic uint8 // READs and ATOMICs outstanding from the peer
	MinRNRTimer     uint8 // code of the wait in our RNR NAKs (IBTA table 45)
	Timeout         uint8 // ACK timeout: 4.096 us * 2^Timeout, 0 = none
	RetryCnt        uint8 // 0..7
	RNRRetry        uint8 // 0..6, 7 = without limit

	// Selective means that both ends use SACK. Devices negotiate it (by HELLO) and return it
	// from Query; applications do not set it.
	Selective bool

	// Draining means that in SQD messages are outstanding that have begun before. Query returns it; applications do not
	// set it.
	Draining bool

	AV AddressVector // address vector of RC and UC, from INIT to RTR
}

// AddressVector is the way to a peer (IBTA 11.2.2.1), with the fields of IP that the
// application chooses.
type AddressVector struct {
	Dst      netip.Addr // the peer; IPv4 also as a v4-mapped GID
	Src      netip.Addr // a GID of the device; not valid: the kernel's choice
	TClass   uint8      // IPv4 TOS, IPv6 traffic class
	HopLimit uint8      // 0 = 64
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
	MaskAV
)

// The names of the bits of AttrMask, bit 0 first.
var attrNames = [...]string{
	"State", "PMTU", "DestQPN", "PKey", "QKey", "SQPSN", "RQPSN", "Access", "MaxRdAtomic", "MaxDestRdAtomic",
	"MinRNRTimer", "Timeout", "RetryCnt", "RNRRetry", "Selective", "AV",
}

// String returns the names of the attributes, as "PMTU, DestQPN".
func (m AttrMask) String() string {
	var names []string
	for i, n := range attrNames {
		if m&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if rest := m >> len(attrNames); rest != 0 {
		names = append(names, fmt.Sprintf("unknown bits %#x", uint32(rest)<<len(attrNames)))
	}
	return strings.Join(names, ", ")
}
