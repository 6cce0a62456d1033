// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
)

// Config are the properties of a Manager. Zero values mean the defaults.
type Config struct {
	// GUID returns the CA GUID by which a peer knows this end, from which it tells a restarted host. Default: a
	// random one for each peer.
	GUID func(peer netip.Addr) uint64
	// Rand gives random numbers for communication IDs. Default: crypto/rand.
	Rand func() uint32
	// Alone reports whether no other communication manager works at these addresses now: messages that
	// belong to nobody are answered then (REJ, DREP), and left to others if not. Default: never.
	Alone func() bool
	// Steer has the Manager report by Steer actions which messages belong to it.
	Steer bool

	// ResponseTimeout is the time until a message is repeated: 4.096 us * 2^n, 8 to 21. It is in
	// every REQ, so that the peer does the same. Default 18 (1.1 s).
	ResponseTimeout uint8
	// Retries is how often a message is repeated, 1 to 15. Default 7.
	Retries uint8
	// Limit is the longest time from Connect to Reply or Failed, however often an MRA asks for
	// patience. Default 3 minutes.
	Limit time.Duration
	// AnswerTimeout is how long the application may take to answer Request, Reply and
	// ResolveRequest: a server that a thousand hosts call at once answers them one by one. Default 2 minutes.
	AnswerTimeout time.Duration
	// Timewait is how long the ID and the QPN of a connection stay reserved after its end.
	// Default 2 s.
	Timewait time.Duration
	// AckDelay is the longest time until an ACK of this end: 4.096 us * 2^n, up to 31. Default 15 (134 ms).
	// The active end of a kernel's connection takes no shorter Timeout.
	AckDelay uint8

	// MaxPMTU is the largest PMTU that a peer may ask for. Default 4096.
	MaxPMTU rocev2.PMTU

	// MaxConns is how many connections and resolutions may exist, those in timewait included.
	// Default 65536.
	MaxConns int
	// MaxAnswered is how many refused requests are remembered, so that a repeated one gets the same
	// answer. Default 1024.
	MaxAnswered int
}

// DefaultBacklog is how many requests of a listener wait for the application, unless Listen says.
const DefaultBacklog = 128

// Bounds of response timeouts of peers, as exponents: 1 ms to 8.6 s.
const (
	minTimeout = 8
	maxTimeout = 21
)

func (c Config) complete() Config {
	if c.Rand == nil {
		c.Rand = randomUint32
	}
	if c.GUID == nil {
		c.GUID = guidFor(c.Rand)
	}
	if c.Alone == nil {
		c.Alone = func() bool { return false }
	}
	fill(&c.ResponseTimeout, 18)
	c.ResponseTimeout = min(max(c.ResponseTimeout, minTimeout), maxTimeout)
	fill(&c.Retries, 7)
	c.Retries = min(c.Retries, 15)
	fill(&c.Limit, 3*time.Minute)
	fill(&c.AnswerTimeout, 2*time.Minute)
	fill(&c.Timewait, 2*time.Second)
	fill(&c.AckDelay, 15)
	c.AckDelay = min(c.AckDelay, 31)
	fill(&c.MaxPMTU, rocev2.PMTU4096)
	fill(&c.MaxConns, 1<<16)
	fill(&c.MaxAnswered, 1024)
	return c
}

func fill[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func randomUint32() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.NativeEndian.Uint32(b[:])
}

// timeoutNs is 4.096 us * 2^n in nanoseconds.
func timeoutNs(n uint8) int64 { return 4096 << min(n, 31) }

// timeoutCode is the smallest n with timeoutNs(n) >= ns, at most 31.
func timeoutCode(ns int64) uint8 {
	if ns <= 4096 {
		return 0
	}
	return uint8(min(bits.Len64(uint64((ns-1)/4096)), 31))
}

// peerTimeoutNs is the response timeout that a peer's message asks for, within bounds.
func peerTimeoutNs(n uint8) int64 { return timeoutNs(min(max(n, minTimeout), maxTimeout)) }
