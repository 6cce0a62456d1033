// SPDX-License-Identifier: Apache-2.0

package cm

import "github.com/softroce/softroce-xdp/rocev2/mad"

// Types of the messages (IBTA 12.6).
type (
	ServiceID  = mad.ServiceID  // what a Connect or a Resolve asks for
	PortSpace  = mad.PortSpace  // a space of ports: PortTCP, PortUDP or PortIB
	Reason     = mad.Reason     // why a connection was rejected
	SIDRStatus = mad.SIDRStatus // the outcome of a Resolve
	Header     = mad.Header     // a message of 256 bytes
	Attr       = mad.Attr       // the kind of a message
)

// Port spaces of librdmacm.
const (
	PortTCP = mad.PortTCP // connections
	PortUDP = mad.PortUDP // datagrams
	PortIB  = mad.PortIB  // both
)

// IPServiceID returns the service ID of a port.
func IPServiceID(s PortSpace, port uint16) ServiceID { return mad.IPServiceID(s, port) }

// QKey is the queue key of queue pair 1 (IBTA 10.2.5).
const QKey = mad.QKey

// Reasons (IBTA 12.6.7.2, table 109).
const (
	ReasonNoQP               = mad.ReasonNoQP
	ReasonNoResources        = mad.ReasonNoResources
	ReasonTimeout            = mad.ReasonTimeout
	ReasonUnsupported        = mad.ReasonUnsupported
	ReasonInvalidCommID      = mad.ReasonInvalidCommID
	ReasonInvalidInstance    = mad.ReasonInvalidInstance
	ReasonInvalidServiceID   = mad.ReasonInvalidServiceID
	ReasonInvalidService     = mad.ReasonInvalidService
	ReasonStaleConnection    = mad.ReasonStaleConnection
	ReasonInvalidGID         = mad.ReasonInvalidGID
	ReasonInvalidLID         = mad.ReasonInvalidLID
	ReasonRedirect           = mad.ReasonRedirect
	ReasonInvalidMTU         = mad.ReasonInvalidMTU
	ReasonResponderResources = mad.ReasonResponderResources
	ReasonConsumer           = mad.ReasonConsumer
	ReasonRNRRetry           = mad.ReasonRNRRetry
	ReasonDuplicateCommID    = mad.ReasonDuplicateCommID
	ReasonClassVersion       = mad.ReasonClassVersion
	ReasonVendorOption       = mad.ReasonVendorOption
)

// Outcomes of a Resolve (IBTA 12.11.2, table 121).
const (
	SIDRSuccess     = mad.SIDRSuccess
	SIDRUnsupported = mad.SIDRUnsupported // nothing listens at the service ID
	SIDRReject      = mad.SIDRReject
	SIDRNoQP        = mad.SIDRNoQP
	SIDRRedirect    = mad.SIDRRedirect
	SIDRVersion     = mad.SIDRVersion
)
