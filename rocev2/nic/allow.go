// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/cm"
)

// Options.Allow limits the hosts of a device. Packets of others are dropped before their ICRC is computed, whichever
// queue pair they are for, queue pair 1 with the communication manager included. To others there are no paths, so a
// queue pair cannot be connected to them, and nothing can be sent there. Packets of the device to itself are not
// limited.

// ErrNotAllowed is wrapped by errors about a peer that Options.Allow does not have.
var ErrNotAllowed = errors.New("the device is limited to other addresses")

// allowed returns an error if the device may not have paths to an address.
func (d *Device) allowed(to netip.Addr) error {
	if d.allow.Has(to) || slices.Contains(d.GIDs(), to) {
		return nil
	}
	return fmt.Errorf("nic: %s: %w, %s: choose one of them, or attach with another --nic-allow", to, ErrNotAllowed, d.allow)
}

// allowedSession has Connect and Resolve fail at once for peers that are not allowed. Otherwise their message would find
// no path, and the caller would wait for an answer.
type allowedSession struct {
	cm.Session
	dev *Device
}

// Connect implements cm.Session.
func (s allowedSession) Connect(p cm.ConnectParams) (cm.ID, error) {
	if err := s.dev.allowed(p.Peer); err != nil {
		return 0, err
	}
	return s.Session.Connect(p)
}

// Resolve implements cm.Session.
func (s allowedSession) Resolve(p cm.ResolveParams) (cm.ID, error) {
	if err := s.dev.allowed(p.Peer); err != nil {
		return 0, err
	}
	return s.Session.Resolve(p)
}
