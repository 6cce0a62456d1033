// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"time"
)

// sources keeps for a second from which address this host talks to each peer. To ask the
// kernel costs as much as to send, and some peers are sent an ECHO every few milliseconds.
type sources struct {
	of    map[netip.Addr]netip.Addr
	since uint64 // monotonic ns
}

const sourceTime = uint64(time.Second)

func (s *sources) get(peer netip.Addr, now uint64, ask func(netip.Addr) (netip.Addr, error)) (src netip.Addr, err error) {
	if s.of == nil || now-s.since > sourceTime {
		s.of, s.since = map[netip.Addr]netip.Addr{}, now
	}
	src, known := s.of[peer]
	if !known {
		if src, err = ask(peer); err == nil {
			s.of[peer] = src
		}
	}
	return src, err
}
