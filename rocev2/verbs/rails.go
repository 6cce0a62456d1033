// SPDX-License-Identifier: Apache-2.0

package verbs

// A device may be on several interfaces of its host. Its Port is the first one. Queue pairs in
// out-of-order mode send and receive on the further ones, too.

// RailDevice is an optional interface of a Device.
type RailDevice interface {
	// Rails returns the state of the further interfaces.
	Rails() ([]Port, error)
}

// RailQP is an optional interface of a QP.
type RailQP interface {
	// UseRails has a queue pair in out-of-order mode use further interfaces. Each address vector has an
	// address of the peer, and the address of this device that leads there. Without the latter, the i-th
	// vector is of the i-th further interface. It is called in RESET or INIT, at both ends.
	UseRails(to ...AddressVector) error
}
