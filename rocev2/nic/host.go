// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// host is the runner as its core sees it.
type host struct{ e *runner }

var (
	_ engine.Host = host{}
	_ engine.Port = (*sock)(nil)
)

// Clock implements engine.Host.
func (h host) Clock() qp.Time { return h.e.clock.now() }

// Owns implements engine.Host.
func (h host) Owns(a netip.Addr) bool { return h.e.dev.owns(a) }

// TakePosts implements engine.Host.
func (h host) TakePosts() { h.e.takePosts() }

// PublishCompletions implements engine.Host.
func (h host) PublishCompletions() { h.e.publishCompletions() }

// CQError implements engine.Host.
func (h host) CQError(cq qp.CompletionQueue) {
	h.e.dev.event(verbs.Event{Type: verbs.EventCQError, CQ: cq.(*CQ)})
}

// Room implements engine.Port.
func (s *sock) Room() bool { return s.xsk.Reserve(1) > 0 }

// Frame implements engine.Port.
func (s *sock) Frame() []byte { return s.xsk.Frame() }

// Push implements engine.Port.
func (s *sock) Push(n int) {
	s.xsk.Push(n)
	s.pushed++
}
