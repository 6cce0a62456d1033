// SPDX-License-Identifier: Apache-2.0

// Package hwoffload drives a card that does in an FPGA what the software NIC does in XDP and
// Go (S1, S2). The registers of the card are in package regs, and docs/card/card-registers.md
// describes them.
//
// A Device is the access to the registers: a PCI BAR (OpenBAR), the model of package card, or a
// socket to a simulator or to a model in another process (Dial, Serve).
// Open checks that a Device is a card which this driver knows, and finds its blocks.
package hwoffload

import (
	"errors"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// Device accesses the registers of a card. Addresses are bytes from the start of the card's
// address space, and multiples of the width of the access.
//
// The methods for access return no error, as a processor's load and store return none. After
// a failure, reads return all ones, as reads of a PCI device do that does not answer, and
// writes have no effect; Err returns the first failure. A caller checks Err after a sequence
// of accesses, and before it uses what was read.
//
// A write may be posted: it has arrived when a later read of the same device returns. All
// methods may be called concurrently. An access is atomic; a sequence is not.
type Device interface {
	Bus

	// Size is the length of the address space in bytes.
	Size() uint64

	// Err returns the first failure of an access, or nil.
	Err() error

	Close() error
}

// ErrInUse is the error of OpenBAR and Dial if another process uses the card.
var ErrInUse = errors.New("another process uses the card: end it first")

// flush waits until all writes have arrived.
func flush(d Device) { regs.IdentOf(d).Scratch() }
