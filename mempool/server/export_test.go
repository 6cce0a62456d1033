// SPDX-License-Identifier: Apache-2.0

package server

import "net"

// Places are places for tests.
type Places struct{ places }

// NewPlaces makes places for hosts.
func NewPlaces(most, mostOfPrefix int) *Places {
	return &Places{places{most: most, mostOfPrefix: mostOfPrefix}}
}

// Take is take.
func (p *Places) Take(host net.Addr, yield func()) (release func(), ok bool) {
	return p.take(host, yield)
}

// OpenTime is for tests.
const OpenTime = openTime

// LimitOpenings has a prefix have so many connections that wait for Begin.
func (s *Server) LimitOpenings(n int) { s.openings.mostOfPrefix = n }
