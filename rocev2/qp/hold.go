// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

type hold struct{}

func (r *responder) dropHeld()                                             {}
func (r *responder) keep(p *rocev2.Packet, psn rocev2.PSN, ahead int) bool { return false }
func (r *responder) release(now Time)                                      {}
func (r *responder) sack(out *Outbound, upTo rocev2.PSN)                   {}
