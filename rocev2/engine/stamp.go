// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/softroce/softroce-xdp/rocev2"

// The timestamp option of a destination: what is sent, and what ingress measured on what
// was received.

// echoMaxAge is how old a stamp may be to be echoed still (bpf/lib/dest.h).
const echoMaxAge = 1e9

// stamp fills in the option of a packet that leaves now, except for credit and the token.
func (d *dest) stamp(s *rocev2.Stamp, now uint64) {
	s.Flags |= rocev2.StampT1
	s.T1 = now
	if d.peerT2 != 0 && int64(now-d.peerT2) < echoMaxAge {
		s.Flags |= rocev2.StampEcho
		s.EchoT1, s.EchoT2 = d.peerT1, d.peerT2
	}
	if d.ce {
		s.Flags |= rocev2.StampCE
		d.ce = false
		d.report.CEEchoed = true
	}
}

// note takes what ingress has measured on a packet of the peer.
func (d *dest) note(m *Meta) {
	if m.Flags&rocev2.StampT1 != 0 {
		d.peerT1, d.peerT2 = m.T1, m.T2
	}
	if m.CE {
		d.ce = true
	}
}
