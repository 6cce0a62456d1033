// SPDX-License-Identifier: Apache-2.0

package loader

import "net/netip"

// NIC is how the agent serves an engine to other processes (package loader/device). It is a part of
// the state of an attachment.
type NIC struct {
	Mode      uint32            `json:"mode"`                 // mode of the socket
	Group     *int              `json:"group,omitempty"`      // group of the socket; nil: that of the agent
	PreCredit bool              `json:"precredit,omitempty"`  // the engine uses pre-credit (nic.Options)
	LargeDSCP uint32            `json:"large_dscp,omitempty"` // DSCP of large flows with pre-credit; 0: none
	Allow     []netip.Prefix    `json:"allow,omitempty"`      // prefixes of the hosts that the engine exchanges packets with; none: all
	Limits    map[string]string `json:"limits,omitempty"`     // other than the defaults, by the names of the flags of attach
}
