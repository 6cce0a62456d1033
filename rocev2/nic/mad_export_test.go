// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/cm"
)

// ReceiveCM gives the communication manager of a device a message, as if it had arrived from src.
func (d *Device) ReceiveCM(src, dst netip.Addr, m []byte, p cm.Proof) {
	d.cm.svc.Load().Receive(src, dst, m, p)
}
