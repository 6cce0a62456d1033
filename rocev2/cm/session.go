// SPDX-License-Identifier: Apache-2.0

package cm

import "github.com/softroce/softroce-xdp/rocev2/mad"

// Session is what one application uses of the communication manager of a device. Listeners,
// connections and resolutions belong to the session that made them, a Request to that of its
// listener; the IDs of others are ErrID. The calls are those of Manager, whose documentation says
// when they are allowed. All methods may be called by any goroutine.
type Session interface {
	Listen(id mad.ServiceID, backlog int) error
	Unlisten(id mad.ServiceID) error
	Connect(p ConnectParams) (ID, error)
	Accept(id ID, p Path, private []byte) error
	Ready(id ID, private []byte) error
	Reject(id ID, private []byte) error
	Disconnect(id ID, private []byte) error
	Arrived(id ID) error
	Resolve(p ResolveParams) (ID, error)
	Answer(id ID, qpn, qkey uint32, private []byte) error

	// Events returns the events of the session, in order. None is lost: a session must receive
	// them. The channel is closed after Close, and when the device has ended.
	Events() <-chan Event

	// Close ends all listeners and connections of the session, which peers are told.
	Close() error
}

// Connector is an optional interface of a verbs.Device: one that has a communication manager.
type Connector interface {
	// OpenCM opens a session. It ends with the device.
	OpenCM() (Session, error)
}
